/** The table of a log's blocks of acknowledgements, in the entity of a group or of a subscription. */
import type { Table } from "../engine/table.ts";
import { type Block, decodeBlock, encodeBlock } from "./block-row.ts";

/** Paths hold no spaces, so a space separates. */
export function blockKey(path: string, edition: number, number: number): string {
  return `${path} ${edition} ${number}`;
}

export function blockOfKey(key: string): { readonly path: string; readonly edition: number; readonly number: number } {
  const [path, edition, number] = key.split(" ");
  return { path: path!, edition: Number(edition), number: Number(number) };
}

export const blockTable: Table<Block> = {
  name: "block",
  encode: encodeBlock,
  decode: decodeBlock,
  at: (key) => ({ table: "block", key, of: blockTable }),
};
