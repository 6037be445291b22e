/**
 * Stands before LMDB while the check in the background is still under way: whatever page LMDB is about to follow or to free on
 * its way to a key is checked first, once. `guarded-store.ts` asks it before every access, on the engine's thread and on the
 * applier's.
 *
 * The start has checked all branches. So what is left are leaves, where the start did not read them all, and the heads of values
 * on pages of their own, which LMDB believes when it frees them. A page that is newer than the start was written by this process.
 *
 * Invariants: it only reads, and synchronously. Its view is the last committed tree: a page that a running transaction has
 * changed was admitted before that.
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

/** What a start has proven, and the guard need not. */
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
  /** By page: whether it has been checked, or is newer than the start. */
  private readonly safe: Uint8Array;
  private tree: Tree = { txn: -1, root: NO_PAGE, depth: 0 };
  /** Pages of this tree that were read; forgotten with the next transaction. */
  private readonly read = new Map<number, Buffer>();

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

  /** Must be called before `admit` when a transaction may have been committed since. */
  refresh(): void {
    const [even, odd] = [this.meta(0), this.meta(1)];
    const newest = odd.txn > even.txn ? odd : even;
    if (newest.txn === this.tree.txn) return;
    this.tree = { txn: newest.txn, root: newest.rows.root, depth: newest.rows.depth };
    this.read.clear();
  }

  /**
   * The leaf of this key and its neighbours, which a cursor steps onto and a removal joins it with. Returns the first key that
   * is not on the leaf; undefined for the last leaf.
   */
  admit(key: Buffer): Buffer | undefined {
    if (this.proven.hasLeavesChecked || this.tree.root === NO_PAGE) return undefined;
    const leaf = this.leafOf(place(key), false);
    this.check(leaf);
    // Two to the left: a reverse cursor looks at two keys, and a leaf may have one.
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

  /** The pages of the value that this key has, if any, which LMDB frees when it is removed or replaced. */
  admitChange(key: Buffer): void {
    this.admit(key);
    if (this.tree.root === NO_PAGE) return;
    const leaf = this.leafOf(place(key), false);
    const entry = this.pages.find(this.page(leaf.number), leaf.number, place(key));
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
    const page = this.page(leaf.number);
    const txn = u64(page, 8);
    // LMDB writes into a page that seems to be of the running transaction, so no page may seem newer than what leads to it.
    if (txn <= this.proven.txn || txn > leaf.above) this.pages.leaf(page, leaf, () => undefined);
    this.safe[leaf.number] = 1;
  }

  private isSafe(page: number): boolean {
    return page > this.proven.lastPage || this.safe[page] === 1;
  }

  /** The leaf where this key belongs; with `isBefore`, where the keys just before it do. */
  private leafOf(key: KeyPlace, isBefore: boolean): Expected {
    let at: Expected = { number: this.tree.root, above: this.tree.txn, floor: undefined, ceiling: undefined };
    for (let level = 1; level < this.tree.depth; level++) at = this.childOf(at, key, isBefore);
    return at;
  }

  private childOf(expected: Expected, key: KeyPlace, isBefore: boolean): Expected {
    const page = this.page(expected.number);
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

  /** Read until two looks agree: one alone may fall into the moment when LMDB writes it. */
  private meta(page: number): Meta {
    let bytes = this.bytesAt(page * PAGE_BYTES, HEADER_BYTES + META_BYTES);
    for (;;) {
      const again = this.bytesAt(page * PAGE_BYTES, HEADER_BYTES + META_BYTES);
      if (again.equals(bytes)) return readMetaPage(bytes);
      bytes = again;
    }
  }

  private page(number: number): Buffer {
    let page = this.read.get(number);
    if (page === undefined) {
      page = this.bytesAt(number * PAGE_BYTES, PAGE_BYTES);
      if (this.read.size >= MAX_READ_PAGES) this.read.clear();
      this.read.set(number, page);
    }
    return page;
  }

  private bytesAt(position: number, count: number): Buffer {
    const into = Buffer.allocUnsafeSlow(count);
    if (readSync(this.fd, into, 0, count, position) < count)
      throw this.damage({ page: Math.floor(position / PAGE_BYTES), at: 0 }, "the file ends here");
    return into;
  }
}

/** Pages kept of one tree, 4 MiB. */
const MAX_READ_PAGES = 256;

const place = (key: Buffer): KeyPlace => ({ bytes: key, from: 0, length: key.length });

function separatorOf(page: Buffer, i: number): KeyPlace {
  const node = HEADER_BYTES + u16(page, HEADER_BYTES + 2 * i);
  return { bytes: page, from: node + NODE_BYTES, length: u16(page, node + 6) };
}
