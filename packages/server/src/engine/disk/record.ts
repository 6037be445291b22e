/**
 * A message as bytes. The engine encodes it once, at commit; the journal, the chunks in LMDB and the tail cache hold the same
 * bytes. Readers decode in place: payloads are views, never copies.
 *
 *    0  u32  length of the whole record
 *    4  u8   flags: 1 id, 2 key, 4 attributes
 *    5  f64  at
 *   13       with id:  u16 length, UTF-8
 *            with key: u16 length, UTF-8
 *            with attributes: u16 count, then for each u16 length, name, u32 length, value
 *            the payload, up to the end
 *
 * Invariants: part of the format; the bytes are never changed after their commit.
 */
import type { LoggedMessage, Message } from "../contract.ts";

const FIXED_BYTES = 13;
const HAS_ID = 1;
const HAS_KEY = 2;
const HAS_ATTRIBUTES = 4;

export function recordBytes(message: Message): number {
  let bytes = FIXED_BYTES + message.payload.length;
  if (message.id !== undefined) bytes += 2 + Buffer.byteLength(message.id);
  if (message.key !== undefined) bytes += 2 + Buffer.byteLength(message.key);
  if (message.attributes !== undefined) {
    bytes += 2;
    for (const name of Object.keys(message.attributes)) {
      bytes += 6 + Buffer.byteLength(name) + Buffer.byteLength(message.attributes[name]!);
    }
  }
  return bytes;
}

/** Returns the end of the record. */
export function writeRecord(into: Buffer, start: number, message: Message): number {
  const { id, key, attributes, payload } = message;
  let flags = 0;
  let to = start + FIXED_BYTES;
  if (id !== undefined) {
    flags |= HAS_ID;
    to = writeText16(into, to, id);
  }
  if (key !== undefined) {
    flags |= HAS_KEY;
    to = writeText16(into, to, key);
  }
  if (attributes !== undefined) {
    flags |= HAS_ATTRIBUTES;
    to = writeAttributes(into, to, attributes);
  }
  into.set(payload, to);
  to += payload.length;
  into.writeUInt32LE(to - start, start);
  into[start + 4] = flags;
  into.writeDoubleLE(message.at, start + 5);
  return to;
}

function writeText16(into: Buffer, at: number, text: string): number {
  const length = into.write(text, at + 2);
  into.writeUInt16LE(length, at);
  return at + 2 + length;
}

function writeAttributes(into: Buffer, at: number, attributes: Readonly<Record<string, string>>): number {
  const names = Object.keys(attributes);
  into.writeUInt16LE(names.length, at);
  let to = at + 2;
  for (const name of names) {
    to = writeText16(into, to, name);
    const length = into.write(attributes[name]!, to + 4);
    into.writeUInt32LE(length, to);
    to += 4 + length;
  }
  return to;
}

/** The length of the record at `at`; zero if the bytes cannot be a record. */
export function recordLength(from: Buffer, at: number): number {
  if (at + FIXED_BYTES > from.length) return 0;
  const length = from.readUInt32LE(at);
  return length >= FIXED_BYTES && at + length <= from.length ? length : 0;
}

export function readRecord(
  from: Buffer,
  start: number,
  length: number,
  generation: number,
  seq: number,
): LoggedMessage {
  const flags = from[start + 4]!;
  const at = from.readDoubleLE(start + 5);
  const position = { generation, seq };
  if (flags === 0) return { position, payload: from.subarray(start + FIXED_BYTES, start + length), at };
  return readFull(from, start, length, flags, at, position);
}

function readFull(
  from: Buffer,
  start: number,
  length: number,
  flags: number,
  at: number,
  position: LoggedMessage["position"],
): LoggedMessage {
  let to = start + FIXED_BYTES;
  const text16 = (): string => {
    const end = to + 2 + from.readUInt16LE(to);
    const text = from.toString("utf8", to + 2, end);
    to = end;
    return text;
  };
  const id = flags & HAS_ID ? text16() : undefined;
  const key = flags & HAS_KEY ? text16() : undefined;
  let attributes: Record<string, string> | undefined;
  if (flags & HAS_ATTRIBUTES) {
    attributes = {};
    const count = from.readUInt16LE(to);
    to += 2;
    for (let i = 0; i < count; i++) {
      const name = text16();
      const end = to + 4 + from.readUInt32LE(to);
      setOwn(attributes, name, from.toString("utf8", to + 4, end));
      to = end;
    }
  }
  return { position, payload: from.subarray(to, start + length), at, id, key, attributes };
}

/** Defines the property, because an assignment to a name like __proto__ would run a setter. */
function setOwn(attributes: Record<string, string>, name: string, value: string): void {
  if (name !== "__proto__") attributes[name] = value;
  else Object.defineProperty(attributes, name, { value, enumerable: true, writable: true, configurable: true });
}
