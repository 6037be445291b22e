/**
 * Proves that the store's file is whole before LMDB touches it. LMDB believes its pages: a damaged one can make rows look
 * absent, let LMDB write over others, or end the process. `open-store.ts` and the doctor call it; `store-check.ts` goes on
 * where a start stops.
 *
 * A start (`verifyOpening`) checks both metas, every branch, the free list against every page that the branches name, and the
 * leaves with the values in them as far as `leafBytes` allows: nearly all of LMDB's own structure, under one percent of a store
 * of messages. The doctor (`verifyStore`) checks everything. Room between nodes and free pages stay unchecked: nothing reads them.
 *
 * Invariants: it only reads. A file that passes `verifyStore` holds every row that the last transaction left, and only those.
 */
import { crc32 } from "node:zlib";
import { EngineError } from "../../contract.ts";
import { type File, type Files, faultCode } from "../files.ts";
import { META_KEY } from "../keys.ts";
import { isSealed, SEAL_BYTES } from "../sealed.ts";
import { damagedValue } from "./damaged-value.ts";
import { verifyFreeList } from "./free-list.ts";
import { isLayoutKnown, PAGE_BYTES } from "./layout.ts";
import { type NewestMeta, newestMeta } from "./metas.ts";
import { PageFile, type Place } from "./page-file.ts";
import type { Proven } from "./path-guard.ts";
import { ROWS } from "./rows-tree.ts";
import type { Entry } from "./tree-page.ts";
import { TreeWalk } from "./tree-walk.ts";
import { ValueScan } from "./value-scan.ts";

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

export interface OpeningStore extends Proven {
  /** Whether the store holds the row about itself, or more leaves than a start reads. */
  readonly wasWritten: boolean;
}

/**
 * Everything. Undefined when there is no file, or an empty one. Damage of the structure is thrown; values that are damaged are
 * told, the first of them, unless `tell` throws.
 */
export function verifyStore(
  files: Files,
  path: string,
  tell: (damage: EngineError) => void,
): Promise<VerifiedStore | undefined> {
  return withPages(files, path, (file) => new Verifier(file, tell).everything());
}

/** What a start waits for. Undefined when there is no file, or an empty one; damage is thrown. */
export function verifyOpening(files: Files, path: string, leafBytes: number): Promise<OpeningStore | undefined> {
  const refuse = (damage: EngineError): never => {
    throw damage;
  };
  return withPages(files, path, (file) => new Verifier(file, refuse).opening(leafBytes));
}

async function withPages<T>(files: Files, path: string, look: (file: PageFile) => Promise<T>): Promise<T | undefined> {
  if (!isLayoutKnown(process.arch))
    throw new EngineError("storage-failed", `The store ${path} cannot be examined on a machine of 32 bits.`);
  let file: File;
  try {
    file = await files.open(path, "read");
  } catch (fault) {
    if (faultCode(fault) === "ENOENT") return undefined;
    throw fault;
  }
  try {
    const bytes = await file.size();
    return bytes === 0 ? undefined : await look(new PageFile(path, file, bytes));
  } finally {
    await file.close();
  }
}

class Verifier {
  private rows = 0;
  private bytes = 0;
  private meta: Buffer | undefined;
  private readonly damaged: Damaged[] = [];

  constructor(
    private readonly file: PageFile,
    private readonly tell: (damage: EngineError) => void,
  ) {}

  async opening(leafBytes: number): Promise<OpeningStore> {
    const newest = await newestMeta(this.file);
    const { rows, page, txn, lastPage } = newest;
    const hasLeavesChecked = rows.leaves * PAGE_BYTES <= leafBytes;
    if (hasLeavesChecked) await this.structure(newest, () => undefined);
    else {
      await new TreeWalk(this.file, ROWS, rows, true).runBranches(txn, page);
      await verifyFreeList(this.file, newest.free, txn, page);
    }
    return { wasWritten: !hasLeavesChecked || this.meta !== undefined, txn, lastPage, hasLeavesChecked };
  }

  async everything(): Promise<VerifiedStore> {
    const { file, damaged } = this;
    const newest = await newestMeta(file);
    const scan = new ValueScan(file);
    await this.structure(newest, (entry) => scan.note(entry, crc32(keyOf(entry))));
    const large: number[] = [];
    await scan.run(newest.txn, (page) => {
      if (damaged.length + large.length < MAX_TOLD) large.push(page);
    });
    for (const page of large) await this.report(newest, await this.keyAt(newest, page), { page, at: 0 });
    return { rows: this.rows, bytes: this.bytes, meta: this.meta, lostPages: file.lostPages };
  }

  /** Both trees, every page used once or free, and the values that lie in leaves; `large` is told of the others. */
  private async structure(newest: NewestMeta, large: (entry: Entry) => void): Promise<void> {
    const { file } = this;
    await this.walkRows(newest, true, (entry) => this.look(entry, large));
    await verifyFreeList(file, newest.free, newest.txn, newest.page);
    if (newest.lastPage >= file.pages && !file.isKnown(newest.lastPage))
      throw file.damage({ page: newest.page, at: 0 }, `page ${newest.lastPage} is said to be the last, and is unknown`);
    for (const { key, place } of this.damaged) await this.report(newest, key, place);
  }

  private walkRows(newest: NewestMeta, takesPages: boolean, visit: (entry: Entry) => void): Promise<void> {
    return new TreeWalk(this.file, ROWS, newest.rows, takesPages).run(newest.txn, newest.page, visit);
  }

  private look(entry: Entry, large: (entry: Entry) => void): void {
    const { valueAt, valueLength } = entry;
    this.rows++;
    this.bytes += entry.keyLength + valueLength;
    if (entry.overflow !== 0) {
      large(entry);
      return;
    }
    const key = keyOf(entry);
    const value = entry.bytes.subarray(valueAt, valueAt + valueLength);
    if (!isSealed(value, crc32(key))) {
      const place = { page: entry.page, at: entry.at };
      if (this.damaged.length < MAX_TOLD) this.damaged.push({ key: Buffer.from(key), place });
    } else if (entry.keyLength === 1 && key.equals(META_KEY)) this.meta = Buffer.from(value.subarray(SEAL_BYTES));
  }

  private async report(newest: NewestMeta, key: Buffer, place: Place): Promise<void> {
    this.tell(await damagedValue(this.file, newest, key, place));
  }

  /** The key of the value that starts on this page. */
  private async keyAt(newest: NewestMeta, page: number): Promise<Buffer> {
    let key = Buffer.alloc(0);
    await this.walkRows(newest, false, (entry) => {
      if (entry.overflow === page) key = Buffer.from(keyOf(entry));
    });
    return key;
  }
}

const keyOf = ({ bytes, keyAt, keyLength }: Entry): Buffer => bytes.subarray(keyAt, keyAt + keyLength);

interface Damaged {
  readonly key: Buffer;
  readonly place: Place;
}
