/**
 * Writes the joined work of one entity into a transaction: directory, head row, reminder, rows, chunks, garbage notes. Only the
 * applier calls it.
 *
 * Invariants: every key of an entity carries the number of its incarnation, and the directory names the number of the newest one.
 */
import { chunkCount, chunkRecords, cutRun, joins, type Run } from "./chunk.ts";
import type { EntityWork } from "./entity-work.ts";
import { noteDestroyed, noteTrimmed } from "./garbage.ts";
import { headRow, nameOfRow, readName, readReminder, reminderOfRow } from "./head-row.ts";
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

interface LastChunk {
  readonly generation: number;
  readonly firstSeq: number;
  readonly bytes: number;
}

export class EntityWriter {
  private readonly lastChunks = new Map<number, LastChunk>();

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
    const atMs = reminderOfRow(old);
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
    tx.put(key, seal(key, headRow(work.rev, work.fixed, name)));
    for (const { suffix, value } of work.rows.values()) putRow(tx, number, suffix, value);
    if (work.begun > 0 && old !== undefined) noteTrimmed(tx, number, work.begun, 0);
    if (work.run !== undefined) this.putChunks(tx, number, work.run);
    if (work.trimmed !== undefined) noteTrimmed(tx, number, work.trimmed.generation, work.trimmed.seq);
  }

  private putChunks(tx: Writing, number: number, run: Run): void {
    for (const chunk of cutRun(this.joinLast(tx, number, run))) {
      const key = logKey(number, run.generation, chunk.firstSeq);
      tx.put(key, seal(key, chunk.value));
      this.remember(number, { generation: run.generation, firstSeq: chunk.firstSeq, bytes: chunk.bytes });
    }
  }

  /** The run, preceded by the stream's last chunk if that one is small. */
  private joinLast(tx: Writing, number: number, run: Run): Run {
    const known = this.lastChunks.get(number);
    if (known !== undefined && known.generation === run.generation && !joins(known.bytes, run.bytes)) return run;
    const key = tx.lastKey(logKey(number, run.generation, 0), logKey(number, run.generation, MAX_NUMBER));
    const value = key && tx.get(key);
    if (key === undefined || value === undefined) return run;
    const chunk = unseal(key, value, () => `messages from ${logFirstSeq(key)} on of entity ${number}`);
    const records = chunkRecords(chunk);
    const count = chunkCount(chunk);
    if (!joins(records.length, run.bytes) || logFirstSeq(key) + count !== run.firstSeq) return run;
    return {
      generation: run.generation,
      firstSeq: logFirstSeq(key),
      count: count + run.count,
      bytes: records.length + run.bytes,
      parts: [{ records, count }, ...run.parts],
    };
  }

  private remember(number: number, last: LastChunk): void {
    if (this.lastChunks.size >= this.maxChunks && !this.lastChunks.has(number)) this.lastChunks.clear();
    this.lastChunks.set(number, last);
  }
}

function headRowOf(tx: Writing, number: number): Buffer {
  const key = headKey(number);
  const what = () => `the head of entity ${number}`;
  return unseal(key, tx.get(key) ?? Buffer.alloc(0), what);
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

function putRow(tx: Writing, number: number, suffix: Buffer, value: Buffer | undefined): void {
  const key = rowKey(number, suffix);
  if (value === undefined) {
    tx.remove(key);
    return;
  }
  const sealed = Buffer.allocUnsafe(SEAL_BYTES + value.length);
  value.copy(sealed, SEAL_BYTES);
  tx.put(key, seal(key, sealed));
}
