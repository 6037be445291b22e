/**
 * The store's file as pages, and the ledger of each page's use. The walks in `verify/` read through it.
 *
 * Invariants: each page has one user. A second use of a page, or the use of a page beyond the file, is damage. An error names the
 * file, the page and the byte.
 */
import { basename } from "node:path";
import { EngineError } from "../../contract.ts";
import type { File } from "../files.ts";
import { OVERFLOW, PAGE_BYTES, u16, u64 } from "./layout.ts";

/** Reads of adjacent pages are joined up to this size. */
const RUN_PAGES = 256;
/** Unwanted pages between two wanted ones that one read includes, because another read would cost more. */
const GAP_PAGES = 8;

const UNKNOWN = 0;
const USED = 1;
const FREE = 2;

/** The part of a file that the checks need. */
export type ReadableFile = Pick<File, "size" | "read">;

export class PageFile {
  /** Pages that the file holds whole. */
  readonly pages: number;
  private ledger = new Uint8Array(0);

  constructor(
    readonly path: string,
    private readonly file: ReadableFile,
    bytes: number,
  ) {
    this.pages = Math.floor(bytes / PAGE_BYTES);
  }

  /** Opens the ledger for the pages up to this one; the first two are the metas. */
  expect(lastPage: number): void {
    this.ledger = new Uint8Array(lastPage + 1);
    this.ledger.fill(USED, 0, 2);
  }

  /** The entry at this place says that the page is part of the store. */
  use(page: number, at: Place): void {
    this.enter(page, USED, at);
    if (page >= this.pages) throw this.damage(at, `it names page ${page}, but the file ends before that`);
  }

  /** The entry at this place says that the page is free; the file may end before it. */
  free(page: number, at: Place): void {
    this.enter(page, FREE, at);
  }

  private enter(page: number, as: number, at: Place): void {
    if (!(page >= 2 && page < this.ledger.length))
      throw this.damage(at, `it names page ${page}, but there are only ${this.ledger.length}`);
    const before = this.ledger[page]!;
    if (before !== UNKNOWN) {
      const other = before === FREE ? "free" : "used elsewhere";
      throw this.damage(at, `it names page ${page}, which is ${other}`);
    }
    this.ledger[page] = as;
  }

  isKnown(page: number): boolean {
    return this.ledger[page] !== UNKNOWN;
  }

  /** Pages that are neither used nor free: lost room, which is harmless. */
  get lostPages(): number {
    let lost = 0;
    for (const state of this.ledger) if (state === UNKNOWN) lost++;
    return lost;
  }

  async read(page: number, count = 1): Promise<Buffer> {
    const into = Buffer.allocUnsafeSlow(count * PAGE_BYTES);
    await this.fill(into, page);
    return into;
  }

  /** Fills the buffer with pages from this one on. */
  async fill(into: Buffer, page: number): Promise<void> {
    const got = await this.file.read(into, page * PAGE_BYTES);
    if (got < into.length)
      throw this.damage({ page: page + Math.floor(got / PAGE_BYTES), at: 0 }, "the file ends here");
  }

  /** These pages, in the order given. */
  async readAll(wanted: readonly number[]): Promise<Buffer[]> {
    const found = new Map<number, Buffer>();
    const runs = runsOf([...wanted].sort((a, b) => a - b));
    const read = async ({ first, last }: Run): Promise<void> => {
      const bytes = await this.read(first, last - first + 1);
      for (let page = first; page <= last; page++) {
        found.set(page, bytes.subarray((page - first) * PAGE_BYTES, (page - first + 1) * PAGE_BYTES));
      }
    };
    await Promise.all(runs.map(read));
    return wanted.map((page) => found.get(page)!);
  }

  /** Checks the head of the pages of one value. */
  checkOverflow(head: Buffer, page: number, pages: number, txn: number): void {
    if (!isOverflowHead(head, page, pages, txn))
      throw this.damage({ page, at: 0 }, "the head of a value's pages is not right");
  }

  damage(place: Place, what: string): EngineError {
    return damageAt(this.path, place, what);
  }
}

/** The error of every check of the store: file, byte and page; for the operator also what is there, which may name a stream. */
export function damageAt(path: string, { page, at }: Place, what: string): EngineError {
  const damaged = (file: string) => `The store is damaged: ${file} at byte ${page * PAGE_BYTES + at} (page ${page})`;
  return new EngineError("data-damaged", `${damaged(basename(path))}.`, `${damaged(path)}: ${what}.`);
}

/** LMDB believes this head when it frees the pages: a wrong one would free pages of other values. */
export const isOverflowHead = (head: Buffer, page: number, pages: number, txn: number): boolean =>
  u64(head, 0) === page && u64(head, 8) <= txn && u16(head, 18) === OVERFLOW && head.readUInt32LE(20) === pages;

/** A place: a page, and the byte within it. */
export interface Place {
  readonly page: number;
  readonly at: number;
}

export interface Run {
  readonly first: number;
  readonly last: number;
}

/** Groups ascending pages into runs worth one read each. */
export function runsOf(pages: readonly number[]): Run[] {
  const runs: { first: number; last: number }[] = [];
  for (const page of pages) {
    const run = runs.at(-1);
    if (run !== undefined && page - run.last <= GAP_PAGES && page - run.first < RUN_PAGES) run.last = page;
    else runs.push({ first: page, last: page });
  }
  return runs;
}
