/**
 * A named table of an entity and how its values become bytes. Features declare their tables; keepers encode and decode, so
 * that rules see values and engines see bytes.
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

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A table whose values are kept as JSON: rows are small and seldom written, so that legibility wins. */
export function jsonTable<T>(name: string): Table<T> {
  const table: Table<T> = {
    name,
    encode: (value) => encoder.encode(JSON.stringify(value)),
    decode: (bytes) => JSON.parse(decoder.decode(bytes)) as T,
    at: (key) => ({ table: name, key, of: table }),
  };
  return table;
}
