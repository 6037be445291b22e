/**
 * One page of a tree, judged by what leads to it: its number, the transaction above it and the keys it may hold. The tree walk
 * and the path guard call it; nothing of a page is believed before it was checked here.
 *
 * Invariants: a branch or leaf that passes can neither lead LMDB outside the page nor hide an entry. Its nodes fill it without
 * a gap or an overlap, its keys ascend, and all of them lie between the separators around it.
 */
import {
  BRANCH,
  HEADER_BYTES,
  LARGE,
  LEAF,
  NODE_BYTES,
  OVERFLOW_BYTES,
  overflowPages,
  PAGE_BYTES,
  ROOM_BYTES,
  u16,
  u32,
  u64,
} from "./layout.ts";
import type { Place } from "./page-file.ts";

export interface TreeKind {
  readonly name: string;
  readonly minKey: number;
  readonly maxKey: number;
  /** A branch of one child ends LMDB, unless it is in the free list. */
  readonly minChildren: number;
  compare(a: Buffer, aFrom: number, aLength: number, b: Buffer, bFrom: number, bLength: number): number;
}

/** A key, where it lies. */
export interface KeyPlace {
  readonly bytes: Buffer;
  readonly from: number;
  readonly length: number;
}

/** A page as the page above it describes it. */
export interface Expected {
  readonly number: number;
  /** The transaction of the page above, which no page below is newer than. */
  readonly above: number;
  /** No key of the page sorts before `floor`; every key sorts before `ceiling`. */
  readonly floor: KeyPlace | undefined;
  readonly ceiling: KeyPlace | undefined;
}

export interface Child extends Expected {
  /** Where its node starts in the page above. */
  readonly at: number;
}

/** An entry of a leaf, where it lies. One object serves all entries. */
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

export class TreePages {
  private readonly tiles = new Tiles();
  private readonly entry: Entry = {
    bytes: Buffer.alloc(0),
    page: 0,
    at: 0,
    keyAt: 0,
    keyLength: 0,
    valueAt: 0,
    valueLength: 0,
    overflow: 0,
    overflowPages: 0,
  };

  constructor(
    private readonly file: { damage(place: Place, what: string): Error },
    readonly kind: TreeKind,
  ) {}

  wrong(page: number, at: number, what: string): Error {
    return this.file.damage({ page, at }, `${this.kind.name} ${what}`);
  }

  /** The children of a branch, in order. */
  branch(page: Buffer, expected: Expected): Child[] {
    const { number } = expected;
    const nodes = this.frame(page, expected, BRANCH);
    if (nodes < this.kind.minChildren) throw this.wrong(number, 20, "has a branch with too few children");
    const above = u64(page, 8);
    const children: Child[] = [];
    let { floor } = expected;
    for (let i = 0; i < nodes; i++) {
      const at = this.nodeAt(number, page, i);
      this.measure(number, at, NODE_BYTES + u16(page, at + 6));
      // The first child has no separator of its own: it starts where its parent does.
      if (i > 0) floor = this.separator(page, expected, at, floor);
      children.push({
        number: page.readUInt32LE(at) + u16(page, at + 4) * 2 ** 32,
        at,
        above,
        floor,
        ceiling: expected.ceiling,
      });
      if (i > 0) children[i - 1] = { ...children[i - 1]!, ceiling: floor };
    }
    this.tile(number, page, nodes);
    return children;
  }

  private separator(page: Buffer, expected: Expected, at: number, before: KeyPlace | undefined): KeyPlace {
    const key = { bytes: page, from: at + NODE_BYTES, length: u16(page, at + 6) };
    const { ceiling } = expected;
    const isInOrder =
      !this.isNoKey(key.length) &&
      (before === undefined || this.compare(before, key) < 0) &&
      (ceiling === undefined || this.compare(key, ceiling) < 0);
    if (!isInOrder) throw this.wrong(expected.number, at, "has a separator out of order");
    return key;
  }

  compare(a: KeyPlace, b: KeyPlace): number {
    return this.kind.compare(a.bytes, a.from, a.length, b.bytes, b.from, b.length);
  }

  private isNoKey(length: number): boolean {
    return length < this.kind.minKey || length > this.kind.maxKey;
  }

  /** Visits the entries of a leaf after all of it was checked. Returns how many there are. */
  leaf(page: Buffer, expected: Expected, visit: (entry: Entry) => void): number {
    const { number, floor, ceiling } = expected;
    const nodes = this.frame(page, expected, LEAF);
    const txn = u64(page, 8);
    const { entry, kind } = this;
    entry.bytes = page;
    entry.page = number;
    let lastFrom = 0;
    let lastLength = 0;
    for (let i = 0; i < nodes; i++) {
      const at = this.nodeAt(number, page, i);
      this.readEntry(number, page, at, txn);
      const { keyAt, keyLength } = entry;
      if (this.isNoKey(keyLength)) throw this.wrong(number, at, `has a key of ${keyLength} bytes`);
      if (i > 0 && kind.compare(page, lastFrom, lastLength, page, keyAt, keyLength) >= 0)
        throw this.wrong(number, at, "has a key out of order");
      lastFrom = keyAt;
      lastLength = keyLength;
      if (i === 0 && floor !== undefined && this.compare(floor, { bytes: page, from: keyAt, length: keyLength }) > 0)
        throw this.wrong(number, at, "has a key out of order, before the separator of its page");
    }
    if (ceiling !== undefined && this.compare({ bytes: page, from: lastFrom, length: lastLength }, ceiling) >= 0)
      throw this.wrong(number, entry.at, "has a key out of order, behind the separator of the next page");
    // Values are looked at only when the page as a whole has proven to be one.
    this.tile(number, page, nodes);
    for (let i = 0; i < nodes; i++) {
      this.place(page, HEADER_BYTES + u16(page, HEADER_BYTES + 2 * i));
      visit(entry);
    }
    return nodes;
  }

  /** The entry of this key on a leaf that was checked before, until the next call. */
  find(page: Buffer, number: number, key: KeyPlace): Entry | undefined {
    const { entry, kind } = this;
    const txn = u64(page, 8);
    let low = 0;
    let high = u16(page, 20) / 2 - 1;
    entry.bytes = page;
    entry.page = number;
    while (low <= high) {
      const middle = (low + high) >> 1;
      this.readEntry(number, page, this.nodeAt(number, page, middle), txn);
      const order = kind.compare(page, entry.keyAt, entry.keyLength, key.bytes, key.from, key.length);
      if (order === 0) return entry;
      if (order < 0) low = middle + 1;
      else high = middle - 1;
    }
    return undefined;
  }

  /** Says where the parts of the node at this place lie; it may claim what is not in the page. */
  private place(page: Buffer, at: number): void {
    const { entry } = this;
    entry.at = at;
    entry.keyLength = u16(page, at + 6);
    entry.keyAt = at + NODE_BYTES;
    entry.valueAt = entry.keyAt + entry.keyLength;
    entry.valueLength = u32(page, at);
    entry.overflow = 0;
    if (u16(page, at + 4) !== LARGE || entry.valueAt + OVERFLOW_BYTES > PAGE_BYTES) return;
    entry.overflow = u64(page, entry.valueAt);
    entry.overflowPages = u64(page, entry.valueAt + 16);
  }

  private readEntry(number: number, page: Buffer, at: number, txn: number): void {
    const { entry } = this;
    const flags = u16(page, at + 4);
    if (flags !== 0 && flags !== LARGE) throw this.wrong(number, at + 4, "has an entry of an unknown kind");
    this.place(page, at);
    const inLeaf = flags === LARGE ? OVERFLOW_BYTES : entry.valueLength;
    this.measure(number, at, NODE_BYTES + entry.keyLength + inLeaf);
    if (flags !== LARGE) return;
    const { valueAt, valueLength } = entry;
    if (u64(page, valueAt + 8) > txn) throw this.wrong(number, valueAt + 8, "has a value that is newer than its page");
    // A value that became shorter within one transaction keeps its pages.
    if (entry.overflowPages < overflowPages(valueLength))
      throw this.wrong(number, valueAt + 16, `has a value of ${valueLength} bytes on too few pages`);
  }

  /** Checks what all pages of a tree have in common, and returns the number of nodes. */
  private frame(page: Buffer, { number, above }: Expected, kind: number): number {
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
