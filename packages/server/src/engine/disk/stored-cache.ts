/**
 * What was read from the store lately: heads of entities that memory holds no state of, and rows. A poll of a quiet stream then
 * costs no look-up in LMDB, which takes several microseconds. The viewer fills it; the overlay drops what a commit changes.
 *
 * Invariants: an entry equals what the store's readers would see. A change drops its entry when it enters the overlay, which
 * hides the store's value until the store has the new one. Rows are kept by the number of their incarnation, which is never used
 * again. Beyond `maxBytes` the cache starts over.
 */
import type { View } from "./view.ts";

/** A larger row is read again each time. */
const ROW_BYTES = 4 * 1_024;
/** Roughly what an entry takes besides its bytes. */
const ENTRY_BYTES = 300;

type Rows = Map<string, Uint8Array | undefined>;

export class StoredCache {
  /** By the entity's key. */
  private readonly views = new Map<string, View>();
  /** By the number of the incarnation, then by table NUL key. */
  private readonly rows = new Map<number, Rows>();
  private bytes = 0;

  constructor(private readonly maxBytes: number) {}

  view(key: string): View | undefined {
    return this.views.get(key);
  }

  keepView(key: string, view: View): void {
    this.charge(costOf(key));
    this.views.set(key, view);
  }

  dropView(key: string): void {
    if (this.views.delete(key)) this.bytes -= costOf(key);
  }

  /** The rows of an incarnation that are known. A known row may be absent. */
  rowsOf(number: number): ReadonlyMap<string, Uint8Array | undefined> | undefined {
    return this.rows.get(number);
  }

  keepRow(number: number, name: string, value: Uint8Array | undefined): void {
    if (value !== undefined && value.length > ROW_BYTES) return;
    this.charge(costOf(name, value));
    const rows = this.rows.get(number);
    if (rows === undefined) this.rows.set(number, new Map([[name, value]]));
    else rows.set(name, value);
  }

  dropRow(number: number, name: string): void {
    const rows = this.rows.get(number);
    if (rows === undefined || !rows.has(name)) return;
    this.bytes -= costOf(name, rows.get(name));
    rows.delete(name);
    if (rows.size === 0) this.rows.delete(number);
  }

  /** Drops all rows of an incarnation, because it is destroyed. */
  dropRows(number: number): void {
    const rows = this.rows.get(number);
    if (rows === undefined) return;
    for (const [name, value] of rows) this.bytes -= costOf(name, value);
    this.rows.delete(number);
  }

  clear(): void {
    this.views.clear();
    this.rows.clear();
    this.bytes = 0;
  }

  private charge(bytes: number): void {
    if (this.bytes + bytes > this.maxBytes) this.clear();
    this.bytes += bytes;
  }
}

function costOf(name: string, value?: Uint8Array): number {
  return ENTRY_BYTES + name.length + (value?.length ?? 0);
}
