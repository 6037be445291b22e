/**
 * Walks one tree of the store from its root in the order of its keys, and proves on the way that LMDB will find in it what was
 * put there: every page is what its parent says, its nodes fill it without a gap or an overlap, keys ascend over the whole
 * tree and keep to the separators above them, and the record of the tree counts what is really there.
 *
 * What must stay true: nothing is believed before it was checked, so that no damage can lead outside a page, around in a
 * circle or to an endless walk.
 */
import {
  BRANCH,
  HEADER_BYTES,
  LARGE,
  LEAF,
  NO_PAGE,
  NODE_BYTES,
  OVERFLOW_BYTES,
  overflowPages,
  PAGE_BYTES,
  ROOM_BYTES,
  type TreeRecord,
  u16,
  u64,
} from "./layout.ts";
import type { PageFile } from "./page-file.ts";

/** Leaves are read this many at a time, the next while the ones before are looked at. */
const GROUP_PAGES = 64;

/** An entry of a leaf, where it lies. The walk uses one object for all entries. */
export interface Entry {
  bytes: Buffer;
  page: number;
  /** Of the node within its page. */
  at: number;
  keyAt: number;
  keyLength: number;
  /** Where the value starts, or the reference to its pages. */
  valueAt: number;
  valueLength: number;
  /** Where the value's own pages start, 0 when it lies in the leaf, and how many they are. */
  overflow: number;
  overflowPages: number;
}

export interface TreeKind {
  readonly name: string;
  readonly minKey: number;
  readonly maxKey: number;
  /** A branch of one child ends LMDB, unless it is in the free list. */
  readonly minChildren: number;
  compare(a: Buffer, aFrom: number, aLength: number, b: Buffer, bFrom: number, bLength: number): number;
}

interface KeyPlace {
  bytes: Buffer;
  from: number;
  length: number;
}

type Visit = (entry: Entry) => void;

export class TreeWalk {
  private branches = 0;
  private leaves = 0;
  private overflows = 0;
  private entries = 0;
  private readonly last: KeyPlace = { bytes: Buffer.alloc(0), from: 0, length: -1 };
  /** The separator that the next key may not sort before. */
  private readonly floor: KeyPlace = { bytes: Buffer.alloc(0), from: 0, length: -1 };
  private readonly entry: Entry = {
    bytes: this.last.bytes,
    page: 0,
    at: 0,
    keyAt: 0,
    keyLength: 0,
    valueAt: 0,
    valueLength: 0,
    overflow: 0,
    overflowPages: 0,
  };
  private readonly tiles = new Tiles();

  constructor(
    private readonly file: PageFile,
    private readonly kind: TreeKind,
    private readonly record: TreeRecord,
    /** Whether pages are entered into the ledger; a second walk must not. */
    private readonly takesPages: boolean,
  ) {}

  /** `txn` is the transaction that wrote the record, `metaPage` the page where that stands. */
  async run(txn: number, metaPage: number, visit: Visit): Promise<void> {
    const { root, depth } = this.record;
    if (root !== NO_PAGE) {
      this.take(root, metaPage, HEADER_BYTES);
      const page = await this.file.read(root);
      if (depth === 1) this.leaf(root, page, txn, visit);
      else await this.branch(root, page, txn, 1, visit);
    } else if (depth !== 0) throw this.wrong(metaPage, HEADER_BYTES, "has no root, but a depth");
    this.expectCount(metaPage, "branch pages", this.branches, this.record.branches);
    this.expectCount(metaPage, "leaf pages", this.leaves, this.record.leaves);
    this.expectCount(metaPage, "overflow pages", this.overflows, this.record.overflows);
    this.expectCount(metaPage, "entries", this.entries, this.record.entries);
  }

  private expectCount(metaPage: number, what: string, found: number, told: number): void {
    if (found !== told) throw this.wrong(metaPage, HEADER_BYTES, `has ${found} ${what}, but is said to have ${told}`);
  }

  private take(page: number, from: number, at: number): void {
    if (this.takesPages) this.file.use(page, { page: from, at });
  }

  private wrong(page: number, at: number, what: string): Error {
    return this.file.damage({ page, at }, `${this.kind.name} ${what}`);
  }

  private async branch(number: number, page: Buffer, above: number, level: number, visit: Visit): Promise<void> {
    this.branches++;
    const nodes = this.frame(number, page, BRANCH, above);
    if (nodes < this.kind.minChildren) throw this.wrong(number, 20, "has a branch with too few children");
    const children: number[] = [];
    for (let i = 0; i < nodes; i++) {
      const at = this.nodeAt(number, page, i);
      this.measure(number, at, NODE_BYTES + u16(page, at + 6));
      const child = page.readUInt32LE(at) + u16(page, at + 4) * 2 ** 32;
      this.take(child, number, at);
      children.push(child);
    }
    this.tile(number, page, nodes);
    const txn = u64(page, 8);
    if (level + 1 === this.record.depth) await this.leavesOf(number, page, children, txn, visit);
    else if (level + 1 > this.record.depth) throw this.wrong(number, 18, "has a branch where a leaf belongs");
    else {
      for (const [i, child] of children.entries()) {
        this.separator(number, page, i);
        await this.branch(child, await this.file.read(child), txn, level + 1, visit);
      }
    }
  }

  private async leavesOf(
    number: number,
    page: Buffer,
    children: readonly number[],
    txn: number,
    visit: Visit,
  ): Promise<void> {
    const group = (from: number) => this.file.readAll(children.slice(from, from + GROUP_PAGES));
    let coming = group(0);
    for (let from = 0; from < children.length; from += GROUP_PAGES) {
      const pages = await coming;
      if (from + GROUP_PAGES < children.length) {
        coming = group(from + GROUP_PAGES);
        // It is awaited in the next turn, unless this one finds damage.
        coming.catch(() => undefined);
      }
      for (const [i, leaf] of pages.entries()) {
        this.separator(number, page, from + i);
        this.leaf(children[from + i]!, leaf, txn, visit);
      }
    }
  }

  /** Everything before the child sorts before its separator; what is below the child does not. The first child has none. */
  private separator(number: number, page: Buffer, i: number): void {
    if (i === 0) return;
    const at = this.nodeAt(number, page, i);
    const length = u16(page, at + 6);
    const { last, floor } = this;
    if (this.isNoKey(length) || this.compare(last, page, at + NODE_BYTES, length) >= 0)
      throw this.wrong(number, at, "has a separator out of order");
    floor.bytes = page;
    floor.from = at + NODE_BYTES;
    floor.length = length;
  }

  private isNoKey(length: number): boolean {
    return length < this.kind.minKey || length > this.kind.maxKey;
  }

  /** Negative when the key that is kept sorts before the one given, and when there is none. */
  private compare(kept: KeyPlace, bytes: Buffer, from: number, length: number): number {
    if (kept.length < 0) return -1;
    return this.kind.compare(kept.bytes, kept.from, kept.length, bytes, from, length);
  }

  private leaf(number: number, page: Buffer, above: number, visit: Visit): void {
    this.leaves++;
    const { entry, last, floor } = this;
    const nodes = this.frame(number, page, LEAF, above);
    const txn = u64(page, 8);
    entry.bytes = page;
    entry.page = number;
    for (let i = 0; i < nodes; i++) {
      const at = this.nodeAt(number, page, i);
      this.readEntry(number, page, at, txn);
      const { keyAt, keyLength } = entry;
      if (this.isNoKey(keyLength)) throw this.wrong(number, at, `has a key of ${keyLength} bytes`);
      if (this.compare(last, page, keyAt, keyLength) >= 0 || this.compare(floor, page, keyAt, keyLength) > 0)
        throw this.wrong(number, at, "has a key out of order");
      last.bytes = page;
      last.from = keyAt;
      last.length = keyLength;
      floor.length = -1;
      this.entries++;
    }
    // Values are looked at only when the page as a whole has proven to be one.
    this.tile(number, page, nodes);
    for (let i = 0; i < nodes; i++) {
      this.readEntry(number, page, this.nodeAt(number, page, i), txn);
      if (entry.overflow !== 0) this.takeOverflow(number);
      visit(entry);
    }
  }

  private readEntry(number: number, page: Buffer, at: number, txn: number): void {
    const { entry } = this;
    const flags = u16(page, at + 4);
    if (flags !== 0 && flags !== LARGE) throw this.wrong(number, at + 4, "has an entry of an unknown kind");
    entry.at = at;
    entry.keyLength = u16(page, at + 6);
    entry.keyAt = at + NODE_BYTES;
    entry.valueAt = entry.keyAt + entry.keyLength;
    entry.valueLength = page.readUInt32LE(at);
    const inLeaf = flags === LARGE ? OVERFLOW_BYTES : entry.valueLength;
    this.measure(number, at, NODE_BYTES + entry.keyLength + inLeaf);
    entry.overflow = flags === LARGE ? u64(page, entry.valueAt) : 0;
    if (flags === LARGE) this.checkOverflow(number, page, txn);
  }

  private checkOverflow(number: number, page: Buffer, txn: number): void {
    const { valueAt, valueLength } = this.entry;
    this.entry.overflowPages = u64(page, valueAt + 16);
    if (u64(page, valueAt + 8) > txn) throw this.wrong(number, valueAt + 8, "has a value that is newer than its page");
    // A value that became shorter within one transaction keeps its pages.
    if (this.entry.overflowPages < overflowPages(valueLength))
      throw this.wrong(number, valueAt + 16, `has a value of ${valueLength} bytes on too few pages`);
  }

  private takeOverflow(number: number): void {
    const { overflow, overflowPages: pages, valueAt } = this.entry;
    // The ledger refuses what is beyond its end, so that no number makes this loop long.
    for (let i = 0; i < pages && this.takesPages; i++) this.take(overflow + i, number, valueAt);
    this.overflows += pages;
  }

  /** Checks what all pages of a tree have in common, and returns the number of nodes. */
  private frame(number: number, page: Buffer, kind: number, above: number): number {
    if (u64(page, 0) !== number) throw this.wrong(number, 0, "has a page that calls itself another");
    if (u64(page, 8) > above) throw this.wrong(number, 8, "has a page that is newer than what leads to it");
    if (u16(page, 18) !== kind) throw this.wrong(number, 18, "has a page of the wrong kind");
    const lower = u16(page, 20);
    const upper = u16(page, 22);
    if (lower < 2 || lower % 2 !== 0 || lower > upper || upper > ROOM_BYTES)
      throw this.wrong(number, 20, "has a page whose room is not within it");
    this.tiles.start();
    return lower / 2;
  }

  /** Where the i-th node of the page starts, from the page's first byte. */
  private nodeAt(number: number, page: Buffer, i: number): number {
    const at = u16(page, HEADER_BYTES + 2 * i);
    if (at % 2 !== 0 || at < u16(page, 22) || at + NODE_BYTES > ROOM_BYTES)
      throw this.wrong(number, HEADER_BYTES + 2 * i, "has a node that is not within its page");
    return at + HEADER_BYTES;
  }

  private measure(number: number, at: number, bytes: number): void {
    if (at + bytes > PAGE_BYTES) throw this.wrong(number, at, "has a node that reaches beyond its page");
    this.tiles.add(at, bytes);
  }

  private tile(number: number, page: Buffer, nodes: number): void {
    if (!this.tiles.fill(u16(page, 22) + HEADER_BYTES, nodes))
      throw this.wrong(number, 22, "has a page whose nodes do not fill it");
  }
}

/** The nodes of one page: they must lie side by side from the end of the free room to the end of the page. */
class Tiles {
  private readonly lengths = new Uint16Array(PAGE_BYTES / 2);
  private readonly rounds = new Uint32Array(PAGE_BYTES / 2);
  private round = 0;

  start(): void {
    this.round++;
  }

  add(at: number, bytes: number): void {
    this.lengths[at >> 1] = (bytes + 1) & ~1;
    this.rounds[at >> 1] = this.round;
  }

  fill(from: number, nodes: number): boolean {
    let at = from;
    let count = 0;
    while (at < PAGE_BYTES && this.rounds[at >> 1] === this.round) {
      at += this.lengths[at >> 1]!;
      count++;
    }
    return at === PAGE_BYTES && count === nodes;
  }
}
