/**
 * Looks an entity up, first in the overlay, then in what was read lately, then in the store. Every read of the engine starts here.
 *
 * Invariants: it is synchronous, so no read transaction lives across a turn.
 */
import { type Entity, type Head, NO_HEAD, type RowKey } from "../contract.ts";
import { type EntityState, IN_STORE } from "./entity-state.ts";
import { type HeadRow, readHeadRow } from "./head-row.ts";
import { directoryKey, headKey, readNumber, rowKey, rowSuffix } from "./keys.ts";
import type { Overlay } from "./overlay.ts";
import { damaged, unseal } from "./sealed.ts";
import type { Reading } from "./store.ts";
import type { StoredCache } from "./stored-cache.ts";

export interface View {
  readonly number: number;
  readonly rev: number;
  readonly head: Head;
  readonly remindAtMs: number | null;
  /** Undefined if memory holds no state of the entity. */
  readonly state: EntityState | undefined;
}

export const ABSENT: View = { number: 0, rev: 0, head: NO_HEAD, remindAtMs: null, state: undefined };

export class Viewer {
  constructor(
    private readonly store: Reading,
    private readonly overlay: Overlay,
    private readonly cache: StoredCache,
  ) {}

  view(e: Entity): View {
    const state = this.overlay.states.get(e.key);
    if (state === undefined) return this.cache.view(e.key) ?? this.stored(e);
    const { number, rev, head, remindAtMs } = state;
    return { number, rev, head, remindAtMs, state };
  }

  private stored(e: Entity): View {
    const key = directoryKey(e.project, e.kind, e.id);
    const value = this.store.get(key);
    if (value === undefined) return ABSENT;
    const number = readNumber(
      unseal(key, value, () => `the directory entry of ${e.key}`),
      0,
    );
    const row = this.headRow(number, e.key);
    if (row === undefined) throw damaged(`the head of ${e.key} is missing`, headKey(number));
    const view = { number, rev: row.rev, head: row.head, remindAtMs: row.remindAtMs, state: undefined };
    this.cache.keepView(e.key, view);
    return view;
  }

  headRow(number: number, name = `entity ${number}`): HeadRow | undefined {
    const key = headKey(number);
    const value = this.store.get(key);
    return value && readHeadRow(unseal(key, value, () => `the head of ${name}`));
  }

  /**
   * Bytes of their own, because a row that a keeper remembers must not pin the memory around it. Callers share them, and change
   * nothing.
   */
  row(e: Entity, { number, state }: View, { table, key }: RowKey): Uint8Array | undefined {
    const name = `${table}\0${key}`;
    const changed = state?.rows?.get(name);
    if (changed !== undefined && changed.lsn !== IN_STORE)
      return changed.memory && Uint8Array.prototype.slice.call(changed.memory, changed.from, changed.to);
    if (number === 0) return undefined;
    const known = this.cache.rowsOf(number);
    const value = known?.get(name);
    if (value !== undefined || known?.has(name)) return value;
    const stored = this.storedRow(number, e, table, key);
    this.cache.keepRow(number, name, stored);
    return stored;
  }

  private storedRow(number: number, e: Entity, table: string, key: string): Uint8Array | undefined {
    const storeKey = rowKey(number, rowSuffix(table, key));
    const value = this.store.get(storeKey);
    return value && unseal(storeKey, value, () => `row ${table}/${key} of ${e.key}`);
  }
}
