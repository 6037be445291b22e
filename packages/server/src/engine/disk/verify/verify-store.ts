/**
 * Proves that the store's file is whole before LMDB touches it. `open-store.ts` and the doctor call it.
 *
 * Every value in LMDB carries a checksum; LMDB's own pages carry none, and LMDB believes them. A flipped bit could hide rows,
 * free pages in use, or end the process. So every page is checked before LMDB follows it, in three places:
 *
 * - A start (`verifyOpening`) checks both metas, every branch, the free list against every page that the branches name, and the
 *   leaves up to `disk.startBytes`. That is nearly all of LMDB's structure, under one percent of a store of messages: a start of
 *   10 GB reads about 70 MB.
 * - The background check (`store-check.ts`, paced by `background-check.ts`) checks every leaf, key and value, and the free list
 *   against them. Each step pins the newest snapshot, checks 8 MiB in key order and releases it, so that LMDB can reuse pages
 *   between steps.
 * - Until that check has passed, `path-guard.ts` checks a page that an access needs sooner.
 *
 * All three refuse damage alike, with page and byte. Damage found later stops all writes, and reads of the store too if rows
 * could be hidden; the next start reads everything first. One gap remains: if a store has more leaves than `disk.startBytes`, a
 * damaged free list may name a message's page. LMDB can overwrite that message before the check compares the two; then its
 * checksum fails. The doctor (`verifyStore`) checks everything at once. Free pages and room between nodes stay unchecked, because
 * nothing reads them.
 *
 * Invariants: it only reads. A file that passes `verifyStore` holds every row that the last transaction left, and only those.
 */
import { crc32 } from "node:zlib";
import { EngineError } from "../../contract.ts";
import type { File, Files } from "../files.ts";
import { META_KEY } from "../keys.ts";
import { isSealed, SEAL_BYTES } from "../sealed.ts";
import { faultCode } from "../system-fault.ts";
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

/** The most damaged values in one report, because naming each one costs a walk. */
export const MAX_TOLD = 20;

export interface VerifiedStore {
  readonly rows: number;
  /** The bytes of keys and values. */
  readonly bytes: number;
  /** The store's row about itself, without its seal; undefined if the store was never written. */
  readonly meta: Buffer | undefined;
  /** Pages that are neither used nor free. */
  readonly lostPages: number;
}

export interface OpeningStore extends Proven {
  /** Whether the store holds its row about itself, or more leaves than a start reads. */
  readonly wasWritten: boolean;
}

/**
 * Checks everything. Undefined if there is no file, or an empty one. Throws on damage of the structure. Reports damaged values,
 * up to `MAX_TOLD`, unless `tell` throws.
 */
export function verifyStore(
  files: Files,
  path: string,
  tell: (damage: EngineError) => void,
): Promise<VerifiedStore | undefined> {
  return withPages(files, path, (file) => new Verifier(file, tell).everything());
}

/** Checks what a start waits for. Undefined if there is no file, or an empty one; throws on damage. */
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

  /** Checks both trees, that every page is used once or free, and the values in leaves; passes all other values to `large`. */
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
