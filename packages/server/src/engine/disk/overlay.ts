/**
 * What is committed but not in the store yet, and the cache of the newest messages. The engine puts every durable commit in
 * and reads through it; the applier's reports take things out.
 *
 * What must stay true: whatever the store does not have is here, so nothing leaves before the store's readers were
 * refreshed. The cache owns its bytes (the blocks of commits) and forgets the oldest first, applied ones only.
 */
import { NO_HEAD } from "../contract.ts";
import { CREATED, DESTROYED, type Encoded, type Outcome, REMINDED } from "./commit-block.ts";
import type { EntityState, TailBlock } from "./entity-state.ts";
import { Fifo } from "./fifo.ts";

/** What a cached block costs besides its bytes: the objects around it. */
const BLOCK_COST = 256;
const EMPTY = Buffer.alloc(0);

export interface DurableCommit {
  readonly lsn: number;
  readonly state: EntityState;
  readonly encoded: Encoded;
  readonly outcome: Outcome;
}

export class Overlay {
  readonly states = new Map<string, EntityState>();
  /** States whose name appeared or vanished, or whose reminder moved, since the store was last told. */
  readonly renamed = new Set<EntityState>();
  readonly reminded = new Set<EntityState>();
  appliedThrough: number;
  /** No generation of a destroyed entity was greater. */
  destroyedGeneration: number;
  private readonly unapplied = new Fifo<DurableCommit>();
  private readonly cached = new Fifo<TailBlock>();
  private cachedBytes = 0;

  constructor(
    private readonly tailBytes: number,
    meta: { readonly appliedThrough: number; readonly destroyedGeneration: number },
  ) {
    this.appliedThrough = meta.appliedThrough;
    this.destroyedGeneration = meta.destroyedGeneration;
  }

  /** Makes a commit visible. */
  add(commit: DurableCommit): void {
    const { state, outcome, lsn, encoded } = commit;
    const { flags } = outcome;
    state.lastLsn = lsn;
    if (flags & (CREATED | DESTROYED)) this.rename(state, lsn);
    if (flags & (REMINDED | DESTROYED)) this.remind(state, lsn);
    if (flags & DESTROYED) this.destroy(state, outcome);
    else {
      if (outcome.head.generation !== state.head.generation) this.dropBlocks(state, Number.POSITIVE_INFINITY);
      state.number = outcome.number;
      state.rev = lsn;
      state.head = outcome.head;
      state.remindAtMs = outcome.remindAtMs;
      this.addRows(state, lsn, encoded);
      this.addBlocks(state, lsn, encoded);
    }
    this.unapplied.push(commit);
  }

  private destroy(state: EntityState, outcome: Outcome): void {
    this.dropBlocks(state, Number.POSITIVE_INFINITY);
    this.destroyedGeneration = Math.max(this.destroyedGeneration, outcome.head.generation);
    state.number = 0;
    state.rev = 0;
    state.head = NO_HEAD;
    state.remindAtMs = null;
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

  private addRows(state: EntityState, lsn: number, { rows, block }: Encoded): void {
    if (rows.length === 0) return;
    state.rows ??= new Map();
    for (const { name, start, end } of rows) state.rows.set(name, { lsn, block, start, end });
  }

  private addBlocks(state: EntityState, lsn: number, { appends, block }: Encoded): void {
    for (const { generation, firstSeq, count, start, end } of appends) {
      // A commit may append and begin anew; then the first messages are gone already.
      if (generation !== state.head.generation) continue;
      const tail: TailBlock = { lsn, state, buffer: block, firstSeq, count, start, end };
      state.blocks.push(tail);
      this.cached.push(tail);
      this.cachedBytes += block.length + BLOCK_COST;
    }
    if (state.head.start.generation === state.head.generation) this.dropBlocks(state, state.head.start.seq);
  }

  /** Lets go of an entity's blocks whose messages are all at or before `seq`. */
  private dropBlocks(state: EntityState, seq: number): void {
    let block = state.blocks.at(0);
    while (block !== undefined && block.firstSeq + block.count - 1 <= seq) {
      state.blocks.shift();
      this.cachedBytes -= block.buffer.length;
      block.state = undefined;
      block.buffer = EMPTY;
      block = state.blocks.at(0);
    }
  }

  /** The store has everything up to `lsn`, and its readers see it. */
  applied(lsn: number): void {
    this.appliedThrough = lsn;
    let commit = this.unapplied.at(0);
    while (commit !== undefined && commit.lsn <= lsn) {
      this.unapplied.shift();
      this.forgetRows(commit);
      this.settle(commit.state);
      commit = this.unapplied.at(0);
    }
    this.evict();
  }

  private forgetRows({ state, encoded, lsn }: DurableCommit): void {
    if (state.rows === undefined) return;
    for (const { name } of encoded.rows) {
      const row = state.rows.get(name);
      if (row?.lsn === lsn) state.rows.delete(name);
    }
    if (state.rows.size === 0) state.rows = undefined;
  }

  private evict(): void {
    let block = this.cached.at(0);
    while (block !== undefined && (block.state === undefined || this.mayEvict(block))) {
      this.cached.shift();
      this.cachedBytes -= block.buffer.length + BLOCK_COST;
      if (block.state !== undefined) {
        block.state.blocks.shift();
        this.settle(block.state);
      }
      block = this.cached.at(0);
    }
  }

  private mayEvict(block: TailBlock): boolean {
    return this.cachedBytes > this.tailBytes && block.lsn <= this.appliedThrough;
  }

  /** Forgets what the store tells just as well. */
  settle(state: EntityState): void {
    if (state.nameLsn <= this.appliedThrough) this.renamed.delete(state);
    if (state.reminderLsn <= this.appliedThrough) this.reminded.delete(state);
    const idle = !state.pending && state.waiting === undefined && state.lastLsn <= this.appliedThrough;
    if (idle && state.blocks.length === 0) this.states.delete(state.entity.key);
  }
}
