/**
 * Checks a store in use, step by step in key order: every leaf with the branches above it, every value against its checksum, and
 * the free list against every page that the step meets. `check-worker.ts` runs the steps.
 *
 * Each step reads the newest snapshot of its own moment, so nothing is pinned between two steps. It meets rows that were written
 * since the start too. A row that moves between steps was written by this process, from pages that were checked before.
 *
 * Invariants: the caller pins the store during a step (`Store.pin`), because LMDB would otherwise reuse pages of the snapshot. A
 * step only reads, and holds one step's values in memory.
 */
import { crc32 } from "node:zlib";
import { EngineError } from "../../contract.ts";
import { isSealed } from "../sealed.ts";
import { type SentError, toSend } from "../sent-error.ts";
import { damagedValue } from "./damaged-value.ts";
import { verifyFreeList } from "./free-list.ts";
import { HEADER_BYTES, PAGE_BYTES } from "./layout.ts";
import { type NewestMeta, newestMeta } from "./metas.ts";
import { PageFile, type ReadableFile } from "./page-file.ts";
import { ROWS } from "./rows-tree.ts";
import type { Entry } from "./tree-page.ts";
import { TreeWalk } from "./tree-walk.ts";

/** A meta that is read while LMDB writes it looks damaged once; a damaged one looks so every time. */
const META_ATTEMPTS = 4;
/** Adjacent values are read together up to this many pages. */
const RUN_PAGES = 64;

export interface Checked {
  readonly kind: "checked";
  /** The start of the next step; undefined after the last one. */
  readonly next: Uint8Array | undefined;
  readonly bytes: number;
  readonly rows: number;
  /** The bytes that all steps together read, as of this snapshot. */
  readonly totalBytes: number;
}

export interface FoundDamage {
  readonly kind: "damaged";
  /** A damaged structure can hide rows. A damaged value affects only reads of that value, which refuse it. */
  readonly part: "structure" | "value";
  readonly error: SentError;
}

interface LargeValue {
  readonly first: number;
  readonly pages: number;
  readonly length: number;
  readonly key: Buffer;
}

export class StoreCheck {
  constructor(
    private readonly path: string,
    private readonly file: ReadableFile,
  ) {}

  /** Checks about `maxBytes`, beginning with the first row at or after `from`. */
  async step(from: Uint8Array, maxBytes: number): Promise<Checked | FoundDamage> {
    try {
      const { file, newest } = await this.snapshot();
      await verifyFreeList(file, newest.free, newest.txn, newest.page);
      const step = new Step(file, newest, Buffer.from(from), maxBytes);
      await step.leaves();
      const damage = step.damage ?? (await step.values());
      if (damage !== undefined) return { kind: "damaged", part: "value", error: toSend(damage) };
      const { branches, leaves, overflows } = newest.rows;
      const totalBytes = (branches + leaves + overflows) * PAGE_BYTES;
      return { kind: "checked", next: step.next, bytes: step.bytes, rows: step.rows, totalBytes };
    } catch (fault) {
      if (!(fault instanceof EngineError) || fault.code !== "data-damaged") throw fault;
      return { kind: "damaged", part: "structure", error: toSend(fault) };
    }
  }

  private async snapshot(): Promise<{ file: PageFile; newest: NewestMeta }> {
    for (let attempt = 1; ; attempt++) {
      try {
        const newest = await newestMeta(new PageFile(this.path, this.file, await this.file.size()));
        // Measured after the meta was read, because every page of its snapshot was written before it.
        const file = new PageFile(this.path, this.file, await this.file.size());
        file.expect(newest.lastPage);
        return { file, newest };
      } catch (fault) {
        if (attempt === META_ATTEMPTS) throw fault;
      }
    }
  }
}

class Step {
  next: Buffer | undefined;
  bytes = 0;
  rows = 0;
  damage: EngineError | undefined;
  private readonly large: LargeValue[] = [];
  private damagedInLeaf: { readonly key: Buffer; readonly page: number; readonly at: number } | undefined;

  constructor(
    private readonly file: PageFile,
    private readonly newest: NewestMeta,
    private readonly from: Buffer,
    private readonly maxBytes: number,
  ) {}

  async leaves(): Promise<void> {
    const { rows, txn, page } = this.newest;
    const walk = new TreeWalk(this.file, ROWS, rows, true);
    await walk.runFrom(txn, page, this.from, (bytes, leaf) => {
      walk.leaf(bytes, leaf, (entry) => this.look(entry));
      this.bytes += PAGE_BYTES;
      if (this.bytes >= this.maxBytes && leaf.ceiling !== undefined && this.next === undefined) {
        const { ceiling } = leaf;
        this.next = Buffer.from(ceiling.bytes.subarray(ceiling.from, ceiling.from + ceiling.length));
      }
      return this.next === undefined && this.damagedInLeaf === undefined;
    });
    if (this.damagedInLeaf === undefined) return;
    const { key, ...place } = this.damagedInLeaf;
    this.damage = await damagedValue(this.file, this.newest, key, place);
  }

  private look(entry: Entry): void {
    if (this.next !== undefined || this.damagedInLeaf !== undefined) return;
    const { bytes, keyAt, keyLength, valueAt, valueLength, overflow, overflowPages } = entry;
    const key = bytes.subarray(keyAt, keyAt + keyLength);
    if (key.compare(this.from) < 0) return;
    if (this.bytes >= this.maxBytes) {
      this.next = Buffer.from(key);
      return;
    }
    this.rows++;
    if (overflow !== 0) {
      this.large.push({ first: overflow, pages: overflowPages, length: valueLength, key: Buffer.from(key) });
      this.bytes += overflowPages * PAGE_BYTES;
    } else if (!isSealed(bytes.subarray(valueAt, valueAt + valueLength), crc32(key)))
      this.damagedInLeaf = { key: Buffer.from(key), page: entry.page, at: entry.at };
  }

  /** Reads the values on pages of their own in file order; returns the first damage. */
  async values(): Promise<EngineError | undefined> {
    this.large.sort((a, b) => a.first - b.first);
    for (const run of adjacentValues(this.large)) {
      const { first } = run[0]!;
      const last = run.at(-1)!;
      const bytes = await this.file.read(first, last.first + last.pages - first);
      for (const value of run) {
        const at = (value.first - first) * PAGE_BYTES;
        this.file.checkOverflow(bytes.subarray(at, at + HEADER_BYTES), value.first, value.pages, this.newest.txn);
        const sealed = bytes.subarray(at + HEADER_BYTES, at + HEADER_BYTES + value.length);
        if (!isSealed(sealed, crc32(value.key)))
          return damagedValue(this.file, this.newest, value.key, { page: value.first, at: 0 });
      }
    }
    return undefined;
  }
}

/** Groups values in page order into runs worth one read each. */
function adjacentValues(values: readonly LargeValue[]): LargeValue[][] {
  const runs: LargeValue[][] = [];
  let end = -1;
  let pages = 0;
  for (const value of values) {
    if (value.first === end && pages + value.pages <= RUN_PAGES) runs.at(-1)!.push(value);
    else {
      runs.push([value]);
      pages = 0;
    }
    end = value.first + value.pages;
    pages += value.pages;
  }
  return runs;
}
