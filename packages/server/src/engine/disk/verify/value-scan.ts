/**
 * Values that lie on pages of their own, which the walk of the tree only takes note of: most of a store. `verifyStore` reads them
 * afterwards in the order of the file, so that a disk gives them as fast as it can.
 *
 * Invariants: a value costs a few bytes of memory per page of the file, whatever the size of the store.
 */
import { isSealed } from "../sealed.ts";
import { HEADER_BYTES, PAGE_BYTES } from "./layout.ts";
import { type PageFile, type Run, runsOf } from "./page-file.ts";
import type { Entry } from "./tree-page.ts";

/** Told of a value that is not what was sealed; the scan goes on unless it throws. */
type Tell = (firstPage: number) => void;

export class ValueScan {
  /** By the first page of a value: its length, 0 for none, its pages, and the checksum of its key. */
  private readonly lengths: Uint32Array;
  private readonly counts: Uint32Array;
  private readonly keySums: Uint32Array;

  constructor(private readonly file: PageFile) {
    this.lengths = new Uint32Array(file.pages);
    this.counts = new Uint32Array(file.pages);
    this.keySums = new Uint32Array(file.pages);
  }

  note({ overflow, overflowPages, valueLength }: Entry, keySum: number): void {
    this.lengths[overflow] = valueLength;
    this.counts[overflow] = overflowPages;
    this.keySums[overflow] = keySum;
  }

  async run(txn: number, tell: Tell): Promise<void> {
    // One buffer is looked at while the other is filled.
    const buffers = [Buffer.alloc(0), Buffer.alloc(0)];
    let waiting: { readonly run: Run; readonly bytes: Buffer; readonly filled: Promise<void> } | undefined;
    let turn = 0;
    for (const run of this.runs()) {
      const bytes = roomFor(buffers, turn++ % 2, (run.last - run.first + 1) * PAGE_BYTES);
      const filled = this.file.fill(bytes, run.first);
      filled.catch(() => undefined);
      if (waiting !== undefined) {
        await waiting.filled;
        this.check(waiting.bytes, waiting.run, txn, tell);
      }
      waiting = { run, bytes, filled };
    }
    if (waiting === undefined) return;
    await waiting.filled;
    this.check(waiting.bytes, waiting.run, txn, tell);
  }

  /** Stretches of the file, each with whole values only. */
  private *runs(): Generator<Run> {
    let pages: number[] = [];
    for (let page = 0; page < this.lengths.length; page++) {
      if (this.lengths[page] === 0) continue;
      pages.push(page);
      if (pages.length < 1_024) continue;
      yield* this.whole(pages);
      pages = [];
    }
    yield* this.whole(pages);
  }

  private *whole(firstPages: readonly number[]): Generator<Run> {
    for (const { first, last } of runsOf(firstPages)) {
      yield { first, last: last + this.counts[last]! - 1 };
    }
  }

  private check(bytes: Buffer, { first, last }: Run, txn: number, tell: Tell): void {
    for (let page = first; page <= last; page++) {
      const length = this.lengths[page]!;
      if (length === 0) continue;
      const at = (page - first) * PAGE_BYTES;
      this.file.checkOverflow(bytes.subarray(at, at + HEADER_BYTES), page, this.counts[page]!, txn);
      const value = bytes.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length);
      if (!isSealed(value, this.keySums[page]!)) tell(page);
      page += this.counts[page]! - 1;
    }
  }
}

function roomFor(buffers: Buffer[], which: number, bytes: number): Buffer {
  if (buffers[which]!.length < bytes) buffers[which] = Buffer.allocUnsafeSlow(bytes);
  return buffers[which]!.subarray(0, bytes);
}
