/**
 * Walks one tree of the store from its root in the order of its keys: all of it, its branches alone, or the leaves from one key
 * on. The verifier of a start, the doctor and the background check call it.
 *
 * Invariants: no damage can lead the walk outside the file, around in a circle or to an endless walk. A whole walk also proves
 * that the record of the tree counts what is really there.
 */
import { HEADER_BYTES, NO_PAGE, type TreeRecord } from "./layout.ts";
import type { PageFile } from "./page-file.ts";
import { type Child, type Entry, type Expected, type KeyPlace, type TreeKind, TreePages } from "./tree-page.ts";

/** Pages are read this many at a time, the next while the ones before are looked at; a walk that may end soon reads fewer. */
const GROUP_PAGES = { whole: 64, from: 8 };

export type Visit = (entry: Entry) => void;

/** Takes a leaf that was read; resolves to false when the walk may end there. */
type TakeLeaf = (page: Buffer, leaf: Expected) => boolean | Promise<boolean>;

export class TreeWalk {
  private branches = 0;
  private leaves = 0;
  private overflows = 0;
  private entries = 0;
  private groupPages = GROUP_PAGES.whole;
  private readonly pages: TreePages;

  constructor(
    private readonly file: PageFile,
    kind: TreeKind,
    private readonly record: TreeRecord,
    /** Whether pages are entered into the ledger; a second walk must not. */
    private readonly takesPages: boolean,
  ) {
    this.pages = new TreePages(file, kind);
  }

  /** Everything. `txn` is the transaction that wrote the record, `metaPage` the page where that stands. */
  async run(txn: number, metaPage: number, visit: Visit): Promise<void> {
    await this.descend(txn, metaPage, undefined, (page, leaf) => {
      this.leaf(page, leaf, visit);
      return true;
    });
    this.expectCount(metaPage, "branch pages", this.branches, this.record.branches);
    this.expectCount(metaPage, "leaf pages", this.leaves, this.record.leaves);
    this.expectCount(metaPage, "overflow pages", this.overflows, this.record.overflows);
    this.expectCount(metaPage, "entries", this.entries, this.record.entries);
  }

  /** The branches, which name every leaf; the leaves themselves are not read. */
  async runBranches(txn: number, metaPage: number): Promise<void> {
    await this.descend(txn, metaPage, undefined, undefined);
    this.expectCount(metaPage, "branch pages", this.branches, this.record.branches);
    this.expectCount(metaPage, "leaf pages", this.leaves, this.record.leaves);
  }

  /** The leaves that may hold this key or a later one, until `take` has had enough. */
  async runFrom(txn: number, metaPage: number, from: Buffer, take: TakeLeaf): Promise<void> {
    this.groupPages = GROUP_PAGES.from;
    await this.descend(txn, metaPage, { bytes: from, from: 0, length: from.length }, take);
  }

  /** Checks a leaf, enters the pages of its values, and visits its entries. */
  leaf(page: Buffer, leaf: Expected, visit: Visit): void {
    this.entries += this.pages.leaf(page, leaf, (entry) => {
      if (entry.overflow !== 0) this.takeOverflow(entry);
      visit(entry);
    });
  }

  private async descend(
    txn: number,
    metaPage: number,
    from: KeyPlace | undefined,
    take: TakeLeaf | undefined,
  ): Promise<void> {
    const { root, depth } = this.record;
    if (root === NO_PAGE) {
      if (depth !== 0) throw this.pages.wrong(metaPage, HEADER_BYTES, "has no root, but a depth");
      return;
    }
    const top = { number: root, at: HEADER_BYTES, above: txn, floor: undefined, ceiling: undefined };
    this.take(top, metaPage);
    if (depth === 1) await this.leavesOf([top], take);
    else await this.branch(await this.file.read(root), top, 1, from, take);
  }

  /** False when the walk may end. */
  private async branch(
    page: Buffer,
    expected: Expected,
    level: number,
    from: KeyPlace | undefined,
    take: TakeLeaf | undefined,
  ): Promise<boolean> {
    this.branches++;
    const { number } = expected;
    const all = this.pages.branch(page, expected);
    if (level + 1 > this.record.depth) throw this.pages.wrong(number, 18, "has a branch where a leaf belongs");
    const children = from === undefined ? all : all.filter((child) => this.reaches(child, from));
    // Entered at once, so that a circle shows before it is walked.
    for (const child of children) this.take(child, number);
    if (level + 1 === this.record.depth) return this.leavesOf(children, take);
    for (const group of this.groupsOf(children)) {
      const pages = await this.file.readAll(group.map((child) => child.number));
      for (const [i, child] of group.entries()) {
        if (!(await this.branch(pages[i]!, child, level + 1, from, take))) return false;
      }
    }
    return true;
  }

  private reaches({ ceiling }: Child, from: KeyPlace): boolean {
    return ceiling === undefined || this.pages.compare(from, ceiling) < 0;
  }

  private async leavesOf(children: readonly Child[], take: TakeLeaf | undefined): Promise<boolean> {
    this.leaves += children.length;
    if (take === undefined) return true;
    const groups = this.groupsOf(children);
    const read = (group: readonly Child[]) => this.file.readAll(group.map(({ number }) => number));
    let coming = read(groups[0] ?? []);
    for (const [k, group] of groups.entries()) {
      const pages = await coming;
      const next = groups[k + 1];
      if (next !== undefined) {
        coming = read(next);
        // It is awaited in the next turn, unless this one finds damage.
        coming.catch(() => undefined);
      }
      for (const [i, leaf] of group.entries()) if (!(await take(pages[i]!, leaf))) return false;
    }
    return true;
  }

  private expectCount(metaPage: number, what: string, found: number, told: number): void {
    if (found !== told)
      throw this.pages.wrong(metaPage, HEADER_BYTES, `has ${found} ${what}, but is said to have ${told}`);
  }

  private take({ number, at }: Child, from: number): void {
    if (this.takesPages) this.file.use(number, { page: from, at });
  }

  private takeOverflow({ overflow, overflowPages: pages, page, valueAt }: Entry): void {
    // The ledger refuses what is beyond its end, so that no number makes this loop long.
    for (let i = 0; i < pages && this.takesPages; i++) this.file.use(overflow + i, { page, at: valueAt });
    this.overflows += pages;
  }

  private groupsOf(children: readonly Child[]): Child[][] {
    const groups: Child[][] = [];
    for (let at = 0; at < children.length; at += this.groupPages) groups.push(children.slice(at, at + this.groupPages));
    return groups;
  }
}
