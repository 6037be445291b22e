/**
 * Garbage: keys that readers no longer see and the store still holds. That is trimmed messages, the log before a `begin`, and all
 * of a destroyed entity. The transaction that makes garbage notes it in a row; the applier deletes it in bounded slices.
 *
 *   key g number8 generation8, value f64 seq: chunks whose messages are all at or before (generation, seq)
 *   key g number8 MAX_NUMBER:                 the rows as well: the whole incarnation
 *
 * Invariants: a note of garbage is committed with the change that makes it, and goes when its last key is deleted.
 */
import { chunkCount } from "./chunk.ts";
import {
  GARBAGE_END,
  GARBAGE_FIRST,
  garbageGeneration,
  garbageKey,
  garbageNumber,
  logFirstSeq,
  logGeneration,
  logKey,
  MAX_NUMBER,
  rowsEnd,
  rowsFirst,
} from "./keys.ts";
import { SEAL_BYTES, seal, unseal } from "./sealed.ts";
import type { Reading, Writing } from "./store.ts";

export function noteTrimmed(tx: Writing, number: number, generation: number, seq: number): void {
  const key = garbageKey(number, generation);
  const value = Buffer.allocUnsafe(SEAL_BYTES + 8);
  value.writeDoubleLE(seq, SEAL_BYTES);
  tx.put(key, seal(key, value));
}

export function noteDestroyed(tx: Writing, number: number): void {
  noteTrimmed(tx, number, MAX_NUMBER, 0);
}

export function hasGarbage(store: Reading): boolean {
  let found = false;
  store.keys(GARBAGE_FIRST, GARBAGE_END, () => {
    found = true;
    return false;
  });
  return found;
}

/** Deletes up to `limit` keys; true if more remain. */
export function collectGarbage(tx: Writing, limit: number): boolean {
  let left = limit;
  while (left > 0) {
    const note = firstNote(tx);
    if (note === undefined) return false;
    const doomed = doomedKeys(tx, note, left);
    for (const key of doomed) tx.remove(key);
    left -= doomed.length + 1;
    if (doomed.length === 0) tx.remove(note.key);
  }
  return hasGarbage(tx);
}

interface Note {
  readonly key: Buffer;
  readonly seq: number;
}

function firstNote(tx: Writing): Note | undefined {
  let note: Note | undefined;
  tx.scan(GARBAGE_FIRST, GARBAGE_END, (key, value) => {
    note = { key, seq: unseal(key, value, () => "a note of garbage").readDoubleLE(0) };
    return false;
  });
  return note;
}

function doomedKeys(tx: Writing, note: Note, limit: number): Buffer[] {
  const number = garbageNumber(note.key);
  const generation = garbageGeneration(note.key);
  const keys: Buffer[] = [];
  const collect = (key: Buffer): boolean => keys.push(key) < limit;
  if (generation === MAX_NUMBER) {
    tx.keys(rowsFirst(number), rowsEnd(number), collect);
    if (keys.length < limit) tx.keys(logKey(number, 0, 0), logKey(number + 1, 0, 0), collect);
    return keys;
  }
  return trimmedChunks(tx, number, { generation, seq: note.seq }, limit);
}

/** A chunk is garbage if the next one starts at or before the first remaining message. */
function trimmedChunks(
  tx: Writing,
  number: number,
  through: { generation: number; seq: number },
  limit: number,
): Buffer[] {
  const doomed: Buffer[] = [];
  let candidate: Buffer | undefined;
  tx.keys(logKey(number, 0, 0), logKey(number, through.generation, MAX_NUMBER), (key) => {
    if (candidate !== undefined) {
      const older = logGeneration(candidate) < through.generation;
      if (!older && logFirstSeq(key) > through.seq + 1) {
        candidate = undefined;
        return false;
      }
      doomed.push(candidate);
    }
    candidate = key;
    return doomed.length < limit;
  });
  if (candidate !== undefined && doomed.length < limit && isTrimmed(tx, candidate, through)) doomed.push(candidate);
  return doomed;
}

/** Judges the last chunk by its own count, because no chunk follows it. */
function isTrimmed(tx: Writing, key: Buffer, through: { generation: number; seq: number }): boolean {
  if (logGeneration(key) < through.generation) return true;
  if (logFirstSeq(key) > through.seq) return false;
  const value = tx.get(key);
  if (value === undefined) return false;
  const chunk = unseal(key, value, () => "a chunk of a log that is being trimmed");
  return logFirstSeq(key) + chunkCount(chunk) - 1 <= through.seq;
}
