/** The refusal of a value that does not match its checksum: where it lies, and what it is, in words for the operator. */
import { crc32 } from "node:zlib";
import type { EngineError } from "../../contract.ts";
import { readHeadRow } from "../head-row.ts";
import { headKey, keyKind, logFirstSeq, logGeneration, numberOf, rowNameOf } from "../keys.ts";
import { isSealed, SEAL_BYTES } from "../sealed.ts";
import type { NewestMeta } from "./metas.ts";
import type { PageFile, Place } from "./page-file.ts";
import { ROWS } from "./rows-tree.ts";
import { TreeWalk } from "./tree-walk.ts";

/** The snapshot must not change meanwhile: the name of the entity is looked up in it. */
export async function damagedValue(
  file: PageFile,
  newest: NewestMeta,
  key: Buffer,
  place: Place,
): Promise<EngineError> {
  const what = await describeKey(key, (head) => nameOf(file, newest, head));
  return file.damage(place, `${what} (key ${key.toString("hex")}) does not match its checksum`);
}

/** The name of the entity with this head, or undefined where the head is damaged too. */
async function nameOf(file: PageFile, { rows, txn, page }: NewestMeta, head: Buffer): Promise<string | undefined> {
  let name: string | undefined;
  const walk = new TreeWalk(file, ROWS, rows, false);
  await walk.runFrom(txn, page, head, (bytes, leaf) => {
    walk.leaf(bytes, leaf, ({ keyAt, keyLength, valueAt, valueLength, overflow }) => {
      if (overflow !== 0 || !head.equals(bytes.subarray(keyAt, keyAt + keyLength))) return;
      const row = bytes.subarray(valueAt, valueAt + valueLength);
      if (isSealed(row, crc32(head))) name = readHeadRow(row.subarray(SEAL_BYTES)).entity.key;
    });
    return false;
  });
  return name;
}

async function describeKey(key: Buffer, entityName: (headKey: Buffer) => Promise<string | undefined>): Promise<string> {
  const kind = keyKind(key);
  if (kind === "meta") return "the row about the store itself";
  if (kind === "directory") return `the directory entry of ${key.toString("utf8", 1).replaceAll("\0", "/")}`;
  if (kind === "unknown" || key.length < 9) return "a row of an unknown kind";
  const number = numberOf(key);
  const name = (kind === "head" ? undefined : await entityName(headKey(number))) ?? `entity ${number}`;
  switch (kind) {
    case "head":
      return `the head of ${name}`;
    case "row":
      return `row ${rowNameOf(key)} of ${name}`;
    case "log":
      return `messages from ${logGeneration(key)}_${logFirstSeq(key)} on of ${name}`;
    case "reminder":
      return `a reminder of ${name}`;
    case "garbage":
      return `a note of what is to be deleted of ${name}`;
  }
}
