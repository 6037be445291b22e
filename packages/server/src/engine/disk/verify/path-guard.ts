/**
 * Guards LMDB while the background check is running: it checks, once, every page that LMDB is about to follow or free on its way
 * to a key. `guarded-store.ts` calls it before every access, on the engine's thread and on the applier's.
 *
 * The start has checked all branches. What remains are leaves beyond the start's budget, and the heads of values on pages of
 * their own, which LMDB believes when it frees them. A page newer than the start was written by this process.
 *
 * Invariants: it only reads, and synchronously. Its view is the last committed tree: it admitted a page before a running
 * transaction changed that page.
 */
import { readSync } from "node:fs";
import {
  HEADER_BYTES,
  META_BYTES,
  type Meta,
  NO_PAGE,
  NODE_BYTES,
  PAGE_BYTES,
  readMetaPage,
  u16,
  u64,
} from "./layout.ts";
import { damageAt, isOverflowHead, type Place } from "./page-file.ts";
import { ROWS } from "./rows-tree.ts";
import { type Entry, type Expected, type KeyPlace, TreePages } from "./tree-page.ts";

/** The start's findings, which the guard need not check again. */
export interface Proven {
  /** Pages of later transactions were written by this process. */
  readonly txn: number;
  readonly lastPage: number;
  readonly hasLeavesChecked: boolean;
}

interface Tree {
  readonly txn: number;
  readonly root: number;
  readonly depth: number;
}

export class PathGuard {
  private readonly pages: TreePages;
  /** By page: whether it was checked, or is newer than the start. */
  private readonly safe: Uint8Array;
  private tree: Tree = { txn: -1, root: NO_PAGE, depth: 0 };
  /** The metas as last read, and room for the next look at them. */
  private readonly metas: [Buffer, Buffer] = [Buffer.alloc(0), Buffer.alloc(0)];
  private readonly looked = Buffer.allocUnsafeSlow(HEADER_BYTES + META_BYTES);
  /**
   * Pages of this tree that were read; dropped at the next transaction. Branches have room of their own, because every access
   * needs some of them and hardly any leaf is needed twice.
   */
  private readonly branches = new Map<number, Buffer>();
  private readonly leaves = new Map<number, Buffer>();

  constructor(
    private readonly path: string,
    private readonly fd: number,
    readonly proven: Proven,
  ) {
    this.pages = new TreePages(this, ROWS);
    this.safe = new Uint8Array(proven.lastPage + 1);
  }

  damage(place: Place, what: string): Error {
    return damageAt(this.path, place, what);
  }

  /** Must be called before `admit` if a transaction may have been committed since. */
  refresh(): void {
    if (this.isMetaAsBefore(0) && this.isMetaAsBefore(1)) return;
    const [even, odd] = [this.meta(0), this.meta(1)];
    const newest = odd.txn > even.txn ? odd : even;
    if (newest.txn === this.tree.txn) return;
    this.tree = { txn: newest.txn, root: newest.rows.root, depth: newest.rows.depth };
    this.branches.clear();
    this.leaves.clear();
  }

  /** Checks the leaf of this key. A look-up of exactly one key follows no other. */
  admitOne(key: Buffer): void {
    if (this.proven.hasLeavesChecked || this.tree.root === NO_PAGE) return;
    this.check(this.leafOf(place(key), false));
  }

  /**
   * Checks the leaf of this key and its neighbors, because a cursor steps onto them and a removal merges with them. Returns the
   * first key that is not on the leaf; undefined for the last leaf.
   */
  admit(key: Buffer): Buffer | undefined {
    if (this.proven.hasLeavesChecked || this.tree.root === NO_PAGE) return undefined;
    const leaf = this.leafOf(place(key), false);
    this.check(leaf);
    // Two to the left, because a reverse cursor looks at two keys and a leaf may have one.
    let { floor } = leaf;
    for (let i = 0; i < 2 && floor !== undefined; i++) {
      const before: Expected = this.leafOf(floor, true);
      this.check(before);
      floor = before.floor;
    }
    if (leaf.ceiling === undefined) return undefined;
    this.check(this.leafOf(leaf.ceiling, false));
    const { bytes, from, length } = leaf.ceiling;
    return bytes.subarray(from, from + length);
  }

  /** Checks the pages of this key's value, if it has any, because LMDB frees them when the value is removed or replaced. */
  admitChange(key: Buffer): void {
    this.admit(key);
    if (this.tree.root === NO_PAGE) return;
    const leaf = this.leafOf(place(key), false);
    const entry = this.pages.find(this.leafPage(leaf.number), leaf.number, place(key));
    if (entry !== undefined && entry.overflow !== 0) this.checkHead(entry);
  }

  private checkHead({ overflow, overflowPages }: Entry): void {
    if (this.isSafe(overflow)) return;
    const head = this.bytesAt(overflow * PAGE_BYTES, HEADER_BYTES);
    if (!isOverflowHead(head, overflow, overflowPages, this.tree.txn))
      throw this.damage({ page: overflow, at: 0 }, "the head of a value's pages is not right");
    this.safe[overflow] = 1;
  }

  private check(leaf: Expected): void {
    if (this.isSafe(leaf.number)) return;
    const page = this.leafPage(leaf.number);
    const txn = u64(page, 8);
    // LMDB writes into a page that seems to belong to the running transaction. So no page may seem newer than its parent.
    if (txn <= this.proven.txn || txn > leaf.above) this.pages.leaf(page, leaf, () => undefined);
    this.safe[leaf.number] = 1;
  }

  private isSafe(page: number): boolean {
    return page > this.proven.lastPage || this.safe[page] === 1;
  }

  /** The leaf where this key belongs; with `isBefore`, the leaf of the keys just before it. */
  private leafOf(key: KeyPlace, isBefore: boolean): Expected {
    let at: Expected = { number: this.tree.root, above: this.tree.txn, floor: undefined, ceiling: undefined };
    for (let level = 1; level < this.tree.depth; level++) at = this.childOf(at, key, isBefore);
    return at;
  }

  private childOf(expected: Expected, key: KeyPlace, isBefore: boolean): Expected {
    const page = this.page(expected.number, this.branches, MAX_BRANCHES);
    let low = 0;
    let high = u16(page, 20) / 2 - 1;
    // The last child whose separator the key has reached; the first child has none.
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      const order = this.pages.compare(separatorOf(page, middle), key);
      if (order < 0 || (order === 0 && !isBefore)) low = middle;
      else high = middle - 1;
    }
    const node = HEADER_BYTES + u16(page, HEADER_BYTES + 2 * low);
    const isLast = low === u16(page, 20) / 2 - 1;
    return {
      number: page.readUInt32LE(node) + u16(page, node + 4) * 2 ** 32,
      above: u64(page, 8),
      floor: low === 0 ? expected.floor : separatorOf(page, low),
      ceiling: isLast ? expected.ceiling : separatorOf(page, low + 1),
    };
  }

  /** Whether the meta is what it was when two reads agreed on it. Most accesses find that, so this allocates nothing. */
  private isMetaAsBefore(page: 0 | 1): boolean {
    this.fill(this.looked, page * PAGE_BYTES);
    return this.looked.equals(this.metas[page]);
  }

  /** Reads until two reads agree, because one alone may see a meta that LMDB is writing. */
  private meta(page: 0 | 1): Meta {
    let bytes = this.bytesAt(page * PAGE_BYTES, HEADER_BYTES + META_BYTES);
    for (;;) {
      const again = this.bytesAt(page * PAGE_BYTES, HEADER_BYTES + META_BYTES);
      if (again.equals(bytes)) {
        this.metas[page] = again;
        return readMetaPage(bytes);
      }
      bytes = again;
    }
  }

  private leafPage(number: number): Buffer {
    return this.page(number, this.leaves, MAX_LEAVES);
  }

  private page(number: number, read: Map<number, Buffer>, max: number): Buffer {
    let page = read.get(number);
    if (page === undefined) {
      page = this.bytesAt(number * PAGE_BYTES, PAGE_BYTES);
      if (read.size >= max) read.clear();
      read.set(number, page);
    }
    return page;
  }

  private bytesAt(position: number, count: number): Buffer {
    const into = Buffer.allocUnsafeSlow(count);
    this.fill(into, position);
    return into;
  }

  private fill(into: Buffer, position: number): void {
    if (readSync(this.fd, into, 0, into.length, position) < into.length)
      throw this.damage({ page: Math.floor(position / PAGE_BYTES), at: 0 }, "the file ends here");
  }
}

/** The most pages kept of one tree: 16 MiB of branches, which are those of some 3 GB of small rows, and 4 MiB of leaves. */
const MAX_BRANCHES = 1_024;
const MAX_LEAVES = 256;

const place = (key: Buffer): KeyPlace => ({ bytes: key, from: 0, length: key.length });

function separatorOf(page: Buffer, i: number): KeyPlace {
  const node = HEADER_BYTES + u16(page, HEADER_BYTES + 2 * i);
  return { bytes: page, from: node + NODE_BYTES, length: u16(page, node + 6) };
}
