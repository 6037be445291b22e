/**
 * Committed state that the store lacks, and the cache of the newest messages. The engine adds every durable commit, a start those
 * of earlier processes (restore.ts). Readers look here first; the applier's reports remove entries.
 *
 * States that the store has are kept for a while, up to `maxKept`. A stream with 10,000 followers writes to each inbox again and
 * again: without its state each commit looks its head up in LMDB and makes new objects, which the collector then has to move.
 *
 * Invariants: everything that the store lacks is here, so no entry leaves before the store's readers were refreshed.
 */
import { type Entity, NO_HEAD } from "../contract.ts";
import { CREATED, DESTROYED, type Encoded, type Outcome, REMINDED } from "./commit-block.ts";
import { EntityState, IN_STORE, type OverlayRow } from "./entity-state.ts";
import { Fifo } from "./fifo.ts";
import { Slab } from "./slab.ts";
import type { StoredCache } from "./stored-cache.ts";
import { TailCache } from "./tail-cache.ts";
import type { View } from "./view.ts";

const KEPT_PLACES = 8;
/** Commits of about 1 MiB, if they carry small messages. */
const FAR_COMMITS = 2_000;
const LATELY_COMMITS = 256;

export interface DurableCommit {
  readonly lsn: number;
  readonly state: EntityState;
  readonly encoded: Encoded;
  readonly outcome: DurableOutcome;
}

type DurableOutcome = Omit<Outcome, "before">;

export class Overlay {
  readonly states = new Map<string, EntityState>();
  /** States whose name appeared or vanished, or whose reminder moved, and which the store lacks. */
  readonly renamed = new Set<EntityState>();
  readonly reminded = new Set<EntityState>();
  appliedThrough: number;
  /** No generation of a destroyed entity was greater. */
  destroyedGeneration: number;
  /** The share of the latest commits whose entity had no other commit for a long time before. */
  farShare = 0;
  private readonly awaited = new Fifo<EntityState>();
  /** States in the order in which the store had all of them. Some have changed since. */
  private readonly kept = new Fifo<EntityState>();
  private readonly tail: TailCache;
  private readonly slab = new Slab();

  constructor(
    tailBytes: number,
    meta: { readonly appliedThrough: number; readonly destroyedGeneration: number },
    private readonly cache: StoredCache,
    private readonly maxKept: number,
  ) {
    this.appliedThrough = meta.appliedThrough;
    this.destroyedGeneration = meta.destroyedGeneration;
    this.tail = new TailCache(tailBytes, (state) => this.settle(state));
  }

  /** Entities that the store lacks commits of. */
  get waiting(): number {
    return this.awaited.length;
  }

  /** Keeps the entity in memory until the store has all of it and its blocks are evicted. */
  hold(e: Entity, { number, rev, head, remindAtMs }: Omit<View, "state">): EntityState {
    const state = new EntityState(e);
    state.number = number;
    state.rev = rev;
    state.head = head;
    state.remindAtMs = remindAtMs;
    this.states.set(e.key, state);
    this.cache.dropView(e.key);
    return state;
  }

  /** Makes a commit visible. */
  add({ state, outcome, lsn, encoded }: DurableCommit): void {
    const { flags } = outcome;
    // New entities are no reason to apply early, because they come to lie side by side in the store.
    const isFar = state.rev > 0 && lsn - state.rev > FAR_COMMITS;
    this.farShare += ((isFar ? 1 : 0) - this.farShare) / LATELY_COMMITS;
    state.lastLsn = lsn;
    if (flags & (CREATED | DESTROYED)) this.rename(state, lsn);
    if (flags & (REMINDED | DESTROYED)) this.remind(state, lsn);
    if (flags & DESTROYED) this.destroy(state, outcome);
    else this.update(state, outcome, lsn, encoded);
    this.await(state, lsn);
  }

  private update(state: EntityState, outcome: DurableOutcome, lsn: number, { rows, appends, block }: Encoded): void {
    const { head } = outcome;
    if (head.generation !== state.head.generation) this.tail.drop(state, Number.POSITIVE_INFINITY);
    state.number = outcome.number;
    state.rev = lsn;
    state.head = head;
    state.remindAtMs = outcome.remindAtMs;
    for (const { name, start, end } of rows)
      this.setRow(state, name, lsn, start < 0 ? undefined : block.subarray(start, end));
    for (const range of appends) {
      // A commit may append and then begin anew; readers never see the messages before the `begin`.
      if (range.generation === head.generation) this.tail.add(state, lsn, block, range);
    }
    if (head.start.generation === head.generation) this.tail.drop(state, head.start.seq);
  }

  /** Keeps a copy, because a row waits for the store much longer than its commit waits for the journal. */
  private setRow(state: EntityState, name: string, lsn: number, value: Buffer | undefined): void {
    this.cache.dropRow(state.number, name);
    state.rows ??= new Map();
    let row = state.rows.get(name);
    if (row === undefined) {
      row = { lsn, memory: undefined, from: 0, to: 0, piece: undefined };
      state.rows.set(name, row);
    } else this.empty(row);
    row.lsn = lsn;
    if (value === undefined) return;
    row.from = this.slab.takePlace(value.length);
    row.to = row.from + value.length;
    row.memory = this.slab.lastMemory;
    row.piece = this.slab.lastPiece;
    row.memory.set(value, row.from);
  }

  /** Releases a row's bytes at once, because a reader gets a copy. */
  private empty(row: OverlayRow): void {
    this.slab.giveBack(row.piece);
    row.lsn = IN_STORE;
    row.memory = undefined;
    row.piece = undefined;
  }

  private destroy(state: EntityState, outcome: DurableOutcome): void {
    this.tail.drop(state, Number.POSITIVE_INFINITY);
    this.cache.dropRows(state.number);
    this.destroyedGeneration = Math.max(this.destroyedGeneration, outcome.head.generation);
    state.number = 0;
    state.rev = 0;
    state.head = NO_HEAD;
    state.remindAtMs = null;
    for (const row of state.rows?.values() ?? []) this.empty(row);
    state.rows = undefined;
  }

  private rename(state: EntityState, lsn: number): void {
    state.nameLsn = lsn;
    this.renamed.add(state);
  }

  private remind(state: EntityState, lsn: number): void {
    state.reminderLsn = lsn;
    this.reminded.add(state);
  }

  /** A busy entity waits once, not once per commit. */
  private await(state: EntityState, lsn: number): void {
    if (state.awaitedLsn > 0) return;
    state.awaitedLsn = lsn;
    this.awaited.push(state);
  }

  /** The store has everything up to `lsn`, and its readers see it. */
  applied(lsn: number): void {
    this.appliedThrough = lsn;
    let state = this.awaited.at(0);
    while (state !== undefined && state.awaitedLsn <= lsn) {
      this.awaited.shift();
      this.forget(state);
      state = this.awaited.at(0);
    }
    this.tail.evict(lsn);
  }

  private forget(state: EntityState): void {
    state.awaitedLsn = 0;
    this.forgetRows(state);
    if (state.lastLsn > this.appliedThrough) this.await(state, state.lastLsn);
    this.settle(state);
  }

  /** Keeps a few empty places, because the next commit mostly writes the same rows and a new map each time is garbage. */
  private forgetRows({ rows }: EntityState): void {
    if (rows === undefined) return;
    for (const [name, row] of rows) {
      if (row.lsn > this.appliedThrough) continue;
      this.empty(row);
      if (rows.size > KEPT_PLACES) rows.delete(name);
    }
  }

  /** The state has changed: if the store has all of it, it is kept for the next commit, and a bounded number of others with it. */
  settle(state: EntityState): void {
    if (state.nameLsn <= this.appliedThrough) this.renamed.delete(state);
    if (state.reminderLsn <= this.appliedThrough) this.reminded.delete(state);
    if (!this.isInStore(state)) return;
    if (!state.exists) this.drop(state);
    else if (!state.isKept) this.keep(state);
  }

  private keep(state: EntityState): void {
    state.isKept = true;
    this.kept.push(state);
    if (this.kept.length > this.maxKept) this.forgetOldest();
  }

  private forgetOldest(): void {
    const state = this.kept.shift()!;
    state.isKept = false;
    // One that has changed since is kept anew when the store has it.
    if (this.isInStore(state)) this.drop(state);
  }

  private isInStore(state: EntityState): boolean {
    const isIdle = !state.pending && state.waiting === undefined && state.lastLsn <= this.appliedThrough;
    return isIdle && state.blocks.length === 0;
  }

  /** A caller may still hold a state that was forgotten before; another may have replaced it since. */
  private drop(state: EntityState): void {
    if (this.states.get(state.entity.key) === state) this.states.delete(state.entity.key);
  }
}
