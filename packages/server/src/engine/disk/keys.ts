/**
 * The keys of the LMDB side, all in one database, distinguished by their first byte. Numbers are 8 bytes big-endian and text is
 * UTF-8, so bytewise order is numeric order and the order that `list` and `rows` promise.
 *
 *   m                                             meta: the store's row about itself (meta.ts)
 *   d project 00 kind 00 id                       directory: the number of the entity with this name
 *   h number8                                     head: rev, head, reminder and name of the entity (head-row.ts)
 *   r number8 table 00 key                        a row's value
 *   l number8 generation8 firstSeq8               a chunk of the log: consecutive messages (chunk.ts)
 *   t atMs8 number8                               a reminder; no value
 *   g number8 generation8                         garbage: log and rows that are still to be deleted (garbage.ts)
 *
 * Invariants: every incarnation of an entity has a number of its own, so a new one never meets the remains of an old one. No key
 * is longer than LMDB accepts (1,978 bytes); ids have up to 1,100 bytes, row keys up to 1,024.
 */
export const MAX_KEY_BYTES = 1_978;

const DIRECTORY = 0x64;
const HEAD = 0x68;
const ROW = 0x72;
const LOG = 0x6c;
const REMINDER = 0x74;
const GARBAGE = 0x67;
const U32 = 2 ** 32;

export const META_KEY = Buffer.from("m");

const KINDS = {
  109: "meta",
  [DIRECTORY]: "directory",
  [HEAD]: "head",
  [ROW]: "row",
  [LOG]: "log",
  [REMINDER]: "reminder",
  [GARBAGE]: "garbage",
} as const;

export type KeyKind = (typeof KINDS)[keyof typeof KINDS] | "unknown";

export const keyKind = (key: Buffer): KeyKind => (KINDS as Record<number, KeyKind>)[key[0]!] ?? "unknown";
/** Sorts after every number that a key can hold. */
export const MAX_NUMBER = Number.MAX_SAFE_INTEGER;

export function writeNumber(into: Buffer, at: number, value: number): void {
  into.writeUInt32BE(Math.floor(value / U32), at);
  into.writeUInt32BE(value % U32, at + 4);
}

export function readNumber(from: Buffer, at: number): number {
  return from.readUInt32BE(at) * U32 + from.readUInt32BE(at + 4);
}

function numbersKey(first: number, ...numbers: number[]): Buffer {
  const key = Buffer.allocUnsafe(1 + numbers.length * 8);
  key[0] = first;
  for (let i = 0; i < numbers.length; i++) writeNumber(key, 1 + i * 8, numbers[i]!);
  return key;
}

/** Rejects a NUL, because two names could then share a key. */
function noNul(text: string): string {
  if (text.includes("\0")) throw new RangeError("projects, kinds and tables hold no NUL");
  return text;
}

function checked(key: Buffer): Buffer {
  if (key.length > MAX_KEY_BYTES) throw new RangeError(`a key of ${key.length} bytes is too long for the store`);
  return key;
}

export function directoryKey(project: string, kind: string, id: string): Buffer {
  return checked(Buffer.from(`d${noNul(project)}\0${noNul(kind)}\0${id}`));
}

/** The first directory key after all entities of a project. */
export function afterProject(project: string): Buffer {
  return Buffer.from(`d${project}\x01`);
}

export const DIRECTORY_FIRST = Buffer.from([DIRECTORY]);
export const DIRECTORY_END = Buffer.from([DIRECTORY + 1]);

export function projectOf(directory: Buffer): string {
  return directory.toString("utf8", 1, directory.indexOf(0));
}

export const headKey = (number: number): Buffer => numbersKey(HEAD, number);

/** The part of a row's key that the journal carries: table, NUL, key. */
export function rowSuffix(table: string, key: string): Buffer {
  return Buffer.from(`${noNul(table)}\0${key}`);
}

export function rowKey(number: number, suffix: Buffer): Buffer {
  const key = Buffer.allocUnsafe(9 + suffix.length);
  key[0] = ROW;
  writeNumber(key, 1, number);
  suffix.copy(key, 9);
  return checked(key);
}

/** First and end of an entity's rows. */
export const rowsFirst = (number: number): Buffer => numbersKey(ROW, number);
export const rowsEnd = (number: number): Buffer => numbersKey(ROW, number + 1);

/** The end of the range of keys that start with these bytes. */
export function afterPrefix(prefix: Buffer): Buffer {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length--;
  const end = Buffer.from(prefix.subarray(0, length));
  end[length - 1]!++;
  return end;
}

/** The smallest key after this one. */
export const justAfter = (key: Buffer): Buffer => Buffer.concat([key, Buffer.from([0])]);

export const logKey = (number: number, generation: number, firstSeq: number): Buffer =>
  numbersKey(LOG, number, generation, firstSeq);
export const logGeneration = (key: Buffer): number => readNumber(key, 9);
export const logFirstSeq = (key: Buffer): number => readNumber(key, 17);

/** Reminders sort by whole milliseconds; the exact time is in the head row. */
export function reminderKey(atMs: number, number: number): Buffer {
  const whole = Math.min(Math.max(Math.floor(atMs), 0), MAX_NUMBER - 1);
  return numbersKey(REMINDER, whole, number);
}
export const reminderNumber = (key: Buffer): number => readNumber(key, 9);

export const garbageKey = (number: number, generation: number): Buffer => numbersKey(GARBAGE, number, generation);
export const GARBAGE_FIRST = Buffer.from([GARBAGE]);
export const GARBAGE_END = Buffer.from([GARBAGE + 1]);
export const garbageNumber = (key: Buffer): number => readNumber(key, 1);
export const garbageGeneration = (key: Buffer): number => readNumber(key, 9);

/** The number of the key's entity. The meta row and the directory have none. */
export const numberOf = (key: Buffer): number => readNumber(key, key[0] === REMINDER ? 9 : 1);
/** Table and key of a row, for error texts. */
export const rowNameOf = (key: Buffer): string => key.toString("utf8", 9).replace("\0", "/");
