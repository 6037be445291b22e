/**
 * Proves that the store's file is whole before LMDB touches it. LMDB believes its pages: a damaged one can make rows look
 * absent, let it write over others, or end the process. `open.ts` runs this first of all, the doctor shows what it finds.
 *
 * It reads the newest snapshot as LMDB would: both metas, both trees, every row against its checksum, and for every page that
 * it has one use. With "structure" the values that lie on pages of their own are left out, as far as they are messages; those
 * prove themselves when they are read. What stays unchecked is what nothing depends on: room between nodes, free pages.
 *
 * What must stay true: it only reads. A file that passes holds every row that the last transaction left, and only those.
 */
import { crc32 } from "node:zlib";
import type { EngineError } from "../../contract.ts";
import { type File, type Files, faultCode } from "../files.ts";
import { readHeadRow } from "../head-row.ts";
import { keyKind, MAX_KEY_BYTES, META_KEY } from "../keys.ts";
import type { Limits } from "../limits.ts";
import { isSealed, SEAL_BYTES } from "../sealed.ts";
import { describeKey } from "./describe-key.ts";
import { verifyFreeList } from "./free-list.ts";
import { type NewestMeta, newestMeta } from "./metas.ts";
import { PageFile, type Place } from "./page-file.ts";
import { type Entry, type TreeKind, TreeWalk } from "./tree-walk.ts";
import { ValueScan } from "./value-scan.ts";

/** How much of the values is read: all of them, or all but messages that lie on pages of their own. */
export type VerifyDepth = Limits["verify"];

/** To name what a damaged value belongs to costs a walk; where so many are damaged, the rest needs no telling. */
export const MAX_TOLD = 20;

export interface VerifiedStore {
  readonly rows: number;
  /** Of keys and values. */
  readonly bytes: number;
  /** The row about the store itself, without its seal; undefined in a store that was never written. */
  readonly meta: Buffer | undefined;
  /** Pages that nothing uses and that are not free either. */
  readonly lostPages: number;
}

const ROWS: TreeKind = {
  name: "the tree of rows",
  minKey: 1,
  maxKey: MAX_KEY_BYTES,
  minChildren: 2,
  compare(a, aFrom, aLength, b, bFrom, bLength) {
    const length = Math.min(aLength, bLength);
    for (let i = 0; i < length; i++) {
      const difference = a[aFrom + i]! - b[bFrom + i]!;
      if (difference !== 0) return difference;
    }
    return aLength - bLength;
  },
};

/**
 * Undefined when there is no file, or an empty one. Damage of the structure is thrown; values that are damaged are told, the
 * first of them, unless `tell` throws.
 */
export async function verifyStore(
  files: Files,
  path: string,
  depth: VerifyDepth,
  tell: (damage: EngineError) => void,
): Promise<VerifiedStore | undefined> {
  let file: File;
  try {
    file = await files.open(path, "read");
  } catch (fault) {
    if (faultCode(fault) === "ENOENT") return undefined;
    throw fault;
  }
  try {
    const bytes = await file.size();
    return bytes === 0 ? undefined : await new Verifier(new PageFile(path, file, bytes), depth, tell).run();
  } finally {
    await file.close();
  }
}

class Verifier {
  private rows = 0;
  private bytes = 0;
  private meta: Buffer | undefined;

  constructor(
    private readonly file: PageFile,
    private readonly depth: VerifyDepth,
    private readonly tell: (damage: EngineError) => void,
  ) {}

  async run(): Promise<VerifiedStore> {
    const { file } = this;
    const newest = await newestMeta(file);
    const scan = new ValueScan(file);
    const damaged: Damaged[] = [];
    await this.walkRows(newest, true, (entry) => this.look(entry, scan, damaged));
    await verifyFreeList(file, newest.free, newest.txn, newest.page);
    if (newest.lastPage >= file.pages && !file.isKnown(newest.lastPage))
      throw file.damage({ page: newest.page, at: 0 }, `page ${newest.lastPage} is said to be the last, and is unknown`);
    for (const { key, place } of damaged) await this.report(newest, key, place);
    const large: number[] = [];
    await scan.run(newest.txn, (page) => {
      if (damaged.length + large.length < MAX_TOLD) large.push(page);
    });
    for (const page of large) await this.report(newest, await this.keyOf(newest, page), { page, at: 0 });
    return { rows: this.rows, bytes: this.bytes, meta: this.meta, lostPages: file.lostPages };
  }

  private walkRows(newest: NewestMeta, takesPages: boolean, visit: (entry: Entry) => void): Promise<void> {
    return new TreeWalk(this.file, ROWS, newest.rows, takesPages).run(newest.txn, newest.page, visit);
  }

  private look(entry: Entry, scan: ValueScan, damaged: Damaged[]): void {
    const { bytes, keyAt, valueAt, valueLength, overflow } = entry;
    const key = bytes.subarray(keyAt, valueAt);
    this.rows++;
    this.bytes += entry.keyLength + valueLength;
    const keySum = crc32(key);
    if (overflow !== 0) {
      if (this.depth === "all" || keyKind(key) !== "log") scan.note(overflow, entry.overflowPages, valueLength, keySum);
      return;
    }
    const value = bytes.subarray(valueAt, valueAt + valueLength);
    if (!isSealed(value, keySum)) {
      const place = { page: entry.page, at: entry.at };
      if (damaged.length < MAX_TOLD) damaged.push({ key: Buffer.from(key), place });
    } else if (entry.keyLength === 1 && key.equals(META_KEY)) this.meta = Buffer.from(value.subarray(SEAL_BYTES));
  }

  private async report(newest: NewestMeta, key: Buffer, place: Place): Promise<void> {
    const what = await describeKey(key, (headKey) => this.nameOf(newest, headKey));
    this.tell(this.file.damage(place, `${what} (key ${key.toString("hex")}) does not match its checksum`));
  }

  /** The key of the value that starts on this page. */
  private async keyOf(newest: NewestMeta, page: number): Promise<Buffer> {
    let key = Buffer.alloc(0);
    await this.walkRows(newest, false, ({ bytes, keyAt, valueAt, overflow }) => {
      if (overflow === page) key = Buffer.from(bytes.subarray(keyAt, valueAt));
    });
    return key;
  }

  private async nameOf(newest: NewestMeta, headKey: Buffer): Promise<string | undefined> {
    let name: string | undefined;
    await this.walkRows(newest, false, ({ bytes, keyAt, valueAt, valueLength, overflow }) => {
      if (overflow !== 0 || !headKey.equals(bytes.subarray(keyAt, valueAt))) return;
      const row = bytes.subarray(valueAt, valueAt + valueLength);
      if (isSealed(row, crc32(headKey))) name = readHeadRow(row.subarray(SEAL_BYTES)).entity.key;
    });
    return name;
  }
}

interface Damaged {
  readonly key: Buffer;
  readonly place: Place;
}
