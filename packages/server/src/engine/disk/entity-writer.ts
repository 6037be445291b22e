/**
 * Writes the joined work of one entity into a transaction: directory, head row, reminder, rows, chunks, garbage notes. Only the
 * applier calls it.
 *
 * Invariants: every key of an entity carries the number of its incarnation, and the directory names the number of the newest one.
 */
import { chunkCount, chunkRecords, cutRun, joins, type Run, valueBytes, writeValue } from "./chunk.ts";
import type { EntityWork } from "./entity-work.ts";
import { noteDestroyed, noteTrimmed } from "./garbage.ts";
import { headRowBytes, nameOfRow, readName, readReminder, reminderOfRow, writeHeadRow } from "./head-row.ts";
import {
  directoryKey,
  headKey,
  logFirstSeq,
  logKey,
  MAX_NUMBER,
  readNumber,
  reminderKey,
  rowKey,
  writeNumber,
} from "./keys.ts";
import { SEAL_BYTES, seal, unseal } from "./sealed.ts";
import type { Writing } from "./store.ts";

/** The largest value that is built in memory that the next value uses again. */
const ROOM_BYTES = 16 * 1_024;

interface LastChunk {
  readonly generation: number;
  readonly firstSeq: number;
  readonly bytes: number;
}

export class EntityWriter {
  private readonly lastChunks = new Map<number, LastChunk>();
  private readonly shared = Buffer.allocUnsafeSlow(ROOM_BYTES);

  /** `maxChunks`: the number of streams whose last chunks stay in memory, so that busy streams need no look-up. */
  constructor(private readonly maxChunks: number) {}

  write(tx: Writing, work: EntityWork): void {
    if (work.destroyed) this.destroy(tx, work);
    else this.update(tx, work);
  }

  private destroy(tx: Writing, work: EntityWork): void {
    this.lastChunks.delete(work.number);
    if (work.name !== undefined) return;
    const old = headRowOf(tx, work.number);
    const { project, kind, id } = readName(nameOfRow(old), 0);
    const atMs = reminderOfRow(old);
    const directory = directoryKey(project, kind, id);
    const named = tx.get(directory);
    // A later incarnation may already have the name.
    if (
      named !== undefined &&
      readNumber(
        unseal(directory, named, () => `directory of ${id}`),
        0,
      ) === work.number
    ) {
      tx.remove(directory);
    }
    if (atMs !== null) tx.remove(reminderKey(atMs, work.number));
    tx.remove(headKey(work.number));
    noteDestroyed(tx, work.number);
  }

  private update(tx: Writing, work: EntityWork): void {
    const { number } = work;
    const old = work.name === undefined ? headRowOf(tx, number) : undefined;
    const name = work.name ?? nameOfRow(old!);
    if (old === undefined) putDirectory(tx, number, name);
    if (work.reminded) moveReminder(tx, work, old === undefined ? null : reminderOfRow(old));
    const key = headKey(number);
    tx.put(key, seal(key, writeHeadRow(this.room(headRowBytes(name)), work.rev, work.fixed, name)));
    for (const { suffix, value } of work.rows.values()) this.putRow(tx, number, suffix, value);
    if (work.begun > 0 && old !== undefined) noteTrimmed(tx, number, work.begun, 0);
    if (work.run !== undefined) this.putChunks(tx, number, work.run);
    if (work.trimmed !== undefined) noteTrimmed(tx, number, work.trimmed.generation, work.trimmed.seq);
  }

  private putChunks(tx: Writing, number: number, run: Run): void {
    for (const chunk of cutRun(this.joinLast(tx, number, run))) {
      const key = logKey(number, run.generation, chunk.firstSeq);
      tx.put(key, seal(key, writeValue(this.room(valueBytes(chunk)), chunk)));
      this.remember(number, { generation: run.generation, firstSeq: chunk.firstSeq, bytes: chunk.bytes });
    }
  }

  /** The run, preceded by the stream's last chunk if that one is small. */
  private joinLast(tx: Writing, number: number, run: Run): Run {
    const known = this.lastChunks.get(number);
    if (known === undefined || known.generation !== run.generation) return joinFound(tx, number, run);
    if (!joins(known.bytes, run.bytes)) return run;
    const key = logKey(number, run.generation, known.firstSeq);
    const value = tx.peek(key);
    // After a failed transaction, the remembered chunk may not exist.
    return value === undefined ? joinFound(tx, number, run) : join(number, key, value, run);
  }

  /** Memory for the next value. The store copies each value, so all of them can share it. */
  private room(bytes: number): Buffer {
    return bytes <= ROOM_BYTES ? this.shared.subarray(0, bytes) : Buffer.allocUnsafeSlow(bytes);
  }

  private putRow(tx: Writing, number: number, suffix: Buffer, value: Buffer | undefined): void {
    const key = rowKey(number, suffix);
    if (value === undefined) {
      tx.remove(key);
      return;
    }
    const sealed = this.room(SEAL_BYTES + value.length);
    value.copy(sealed, SEAL_BYTES);
    tx.put(key, seal(key, sealed));
  }

  private remember(number: number, last: LastChunk): void {
    if (this.lastChunks.size >= this.maxChunks && !this.lastChunks.has(number)) this.lastChunks.clear();
    this.lastChunks.set(number, last);
  }
}

/** Valid until the next read. */
function headRowOf(tx: Writing, number: number): Buffer {
  const key = headKey(number);
  const what = () => `the head of entity ${number}`;
  return unseal(key, tx.peek(key) ?? Buffer.alloc(0), what);
}

/** Looks the stream's last chunk up, for a stream that was not busy lately. */
function joinFound(tx: Writing, number: number, run: Run): Run {
  const key = tx.lastKey(logKey(number, run.generation, 0), logKey(number, run.generation, MAX_NUMBER));
  const value = key && tx.get(key);
  return key === undefined || value === undefined ? run : join(number, key, value, run);
}

/** The run, preceded by this chunk if that one is small and the run continues it. */
function join(number: number, key: Buffer, value: Buffer, run: Run): Run {
  const firstSeq = logFirstSeq(key);
  const chunk = unseal(key, value, () => `messages from ${firstSeq} on of entity ${number}`);
  const records = chunkRecords(chunk);
  const count = chunkCount(chunk);
  if (!joins(records.length, run.bytes) || firstSeq + count !== run.firstSeq) return run;
  return {
    generation: run.generation,
    firstSeq,
    count: count + run.count,
    bytes: records.length + run.bytes,
    parts: [{ records, count }, ...run.parts],
  };
}

function putDirectory(tx: Writing, number: number, name: Buffer): void {
  const { project, kind, id } = readName(name, 0);
  const key = directoryKey(project, kind, id);
  const value = Buffer.allocUnsafe(SEAL_BYTES + 8);
  writeNumber(value, SEAL_BYTES, number);
  tx.put(key, seal(key, value));
}

function moveReminder(tx: Writing, work: EntityWork, oldMs: number | null): void {
  if (oldMs !== null) tx.remove(reminderKey(oldMs, work.number));
  const atMs = readReminder(work.fixed, 0);
  if (atMs === null) return;
  const key = reminderKey(atMs, work.number);
  tx.put(key, seal(key, Buffer.alloc(SEAL_BYTES)));
}
