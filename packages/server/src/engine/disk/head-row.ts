/**
 * The row with an entity's head, reminder and name. The journal carries bytes 8 to 80 in every commit, so that the applier copies
 * them without decoding.
 *
 *    0  f64  rev: the lsn of the last commit
 *    8  f64  head: generation, last generation, last seq, bytes, at, start generation, start seq, start bytes
 *   72  f64  reminder, epoch ms; NaN for none
 *   80  u16  lengths of project, kind and id, then their UTF-8
 *
 * Invariants: numbers are little-endian doubles: exact up to 2^53, which no counter here reaches.
 */
import { type Entity, entity, type Head } from "../contract.ts";
import { SEAL_BYTES } from "./sealed.ts";

/** The bytes of head and reminder. */
export const FIXED_BYTES = 72;
const REV_BYTES = 8;
const NAME_AT = REV_BYTES + FIXED_BYTES;

export interface HeadRow {
  readonly rev: number;
  readonly head: Head;
  readonly remindAtMs: number | null;
  readonly entity: Entity;
}

/** Where a head is put together: a view writes numbers several times as fast as a buffer does, and every commit has nine. */
const numbers = new DataView(new ArrayBuffer(FIXED_BYTES));
const numberBytes = new Uint8Array(numbers.buffer);

export function writeHead(into: Buffer, at: number, head: Head, remindAtMs: number | null): void {
  numbers.setFloat64(0, head.generation, true);
  numbers.setFloat64(8, head.last.generation, true);
  numbers.setFloat64(16, head.last.seq, true);
  numbers.setFloat64(24, head.bytes, true);
  numbers.setFloat64(32, head.at, true);
  numbers.setFloat64(40, head.start.generation, true);
  numbers.setFloat64(48, head.start.seq, true);
  numbers.setFloat64(56, head.startBytes, true);
  numbers.setFloat64(64, remindAtMs ?? Number.NaN, true);
  into.set(numberBytes, at);
}

export function readHead(from: Buffer, at: number): Head {
  return {
    generation: from.readDoubleLE(at),
    last: { generation: from.readDoubleLE(at + 8), seq: from.readDoubleLE(at + 16) },
    bytes: from.readDoubleLE(at + 24),
    at: from.readDoubleLE(at + 32),
    start: { generation: from.readDoubleLE(at + 40), seq: from.readDoubleLE(at + 48) },
    startBytes: from.readDoubleLE(at + 56),
  };
}

export function readReminder(from: Buffer, at: number): number | null {
  const atMs = from.readDoubleLE(at + 64);
  return Number.isNaN(atMs) ? null : atMs;
}

/** The length of a name in a commit and in a head row. */
export function nameBytes(e: Entity): number {
  return 6 + Buffer.byteLength(e.project) + Buffer.byteLength(e.kind) + Buffer.byteLength(e.id);
}

/** Returns the end of the name. */
export function writeName(into: Buffer, at: number, e: Entity): number {
  let to = at + 6;
  const parts = [e.project, e.kind, e.id];
  for (let i = 0; i < parts.length; i++) {
    const length = into.write(parts[i]!, to);
    into.writeUInt16LE(length, at + i * 2);
    to += length;
  }
  return to;
}

export function nameLength(from: Buffer, at: number): number {
  return 6 + from.readUInt16LE(at) + from.readUInt16LE(at + 2) + from.readUInt16LE(at + 4);
}

export function readName(from: Buffer, at: number): Entity {
  const kindAt = at + 6 + from.readUInt16LE(at);
  const idAt = kindAt + from.readUInt16LE(at + 2);
  const end = idAt + from.readUInt16LE(at + 4);
  return entity(
    from.toString("utf8", at + 6, kindAt),
    from.toString("utf8", kindAt, idAt),
    from.toString("utf8", idAt, end),
  );
}

/** The bytes of a row with its seal. */
export const headRowBytes = (name: Buffer): number => SEAL_BYTES + NAME_AT + name.length;

/** Builds a row, with room for the seal, from the fixed part of a commit and the name's bytes. */
export function writeHeadRow(into: Buffer, rev: number, fixed: Buffer, name: Buffer): Buffer {
  into.writeDoubleLE(rev, SEAL_BYTES);
  fixed.copy(into, SEAL_BYTES + REV_BYTES);
  name.copy(into, SEAL_BYTES + NAME_AT);
  return into;
}

export function readHeadRow(row: Buffer): HeadRow {
  return {
    rev: row.readDoubleLE(0),
    head: readHead(row, REV_BYTES),
    remindAtMs: readReminder(row, REV_BYTES),
    entity: readName(row, NAME_AT),
  };
}

export const nameOfRow = (row: Buffer): Buffer => row.subarray(NAME_AT);
export const reminderOfRow = (row: Buffer): number | null => readReminder(row, REV_BYTES);
