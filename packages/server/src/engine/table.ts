/**
 * A named table of an entity and the encoding of its values. Features declare their tables; keepers encode and decode.
 *
 * Invariants: rules see values, engines see bytes.
 */
import type { RowKey } from "./contract.ts";

export interface Table<T> {
  readonly name: string;
  encode(value: T): Uint8Array;
  decode(bytes: Uint8Array): T;
  /** The row of this table under `key`. */
  at(key: string): TableKey<T>;
}

export interface TableKey<T> extends RowKey {
  readonly of: Table<T>;
}

const decoder = new TextDecoder();

/**
 * A table that stores its values as JSON, because rows are small and seldom written, and legible. `upgrade` turns a value that an
 * earlier version stored into the current form.
 */
export function jsonTable<T>(name: string, upgrade = (stored: T): T => stored): Table<T> {
  const table: Table<T> = {
    name,
    encode: (value) => encode(JSON.stringify(value)),
    decode: (bytes) => upgrade(JSON.parse(decoder.decode(bytes)) as T),
    at: (key) => ({ table: name, key, of: table }),
  };
  return table;
}

const encoder = new TextEncoder();
const PIECE_BYTES = 8 * 1_024;
/** The most UTF-8 bytes of one UTF-16 unit. */
const UNIT_BYTES = 3;
let piece = new Uint8Array(0);
let used = 0;

/** Many rows share one buffer, because one buffer each made garbage collection pauses visible. */
function encode(text: string): Uint8Array {
  const most = UNIT_BYTES * text.length;
  if (most > PIECE_BYTES) return encoder.encode(text);
  if (used + most > piece.length) {
    piece = new Uint8Array(PIECE_BYTES);
    used = 0;
  }
  const start = used;
  used += encoder.encodeInto(text, piece.subarray(start)).written;
  return piece.subarray(start, used);
}
