/**
 * An entity in memory: the store lacks some of it, its newest messages are cached, or it was one of the last to change. The engine
 * and the overlay use it. Other entities have no such object and cost nothing.
 *
 * Invariants: number, rev, head and reminder are those of the last durable commit; a queued commit shows nowhere.
 */
import { type Entity, type Head, NO_HEAD } from "../contract.ts";
import { Fifo } from "./fifo.ts";
import type { Piece } from "./slab.ts";

/** A row that the store does not have yet. */
export interface OverlayRow {
  /** The commit that wrote the row; `IN_STORE` if the store has it and only the place is kept for the next write. */
  lsn: number;
  /** The memory that the value is a part of, with its place there; undefined for a dropped row. */
  memory: Buffer | undefined;
  from: number;
  to: number;
  /** The piece of that memory; undefined for a large value. */
  piece: Piece | undefined;
}

export const IN_STORE = 0;

/** Consecutive messages in memory, still encoded. Later commits add theirs at the end. */
export interface TailBlock {
  /** Undefined once readers can no longer see the messages. */
  state: EntityState | undefined;
  /** The newest commit with messages in this block. */
  lsn: number;
  /**
   * The memory that the block is a part of: records between `from` and `to`, free room up to `end`. Bytes that a reader has seen
   * are never overwritten, because readers hold views.
   */
  memory: Buffer;
  from: number;
  to: number;
  end: number;
  /** The piece of that memory; undefined for a large block. */
  piece: Piece | undefined;
  firstSeq: number;
  count: number;
  /** The number of the newest commit's first message, where most readers at the tail start, and its place in the memory. */
  newestSeq: number;
  newestAt: number;
}

export class EntityState {
  /** The number of the incarnation; 0 if the entity does not exist. */
  number = 0;
  rev = 0;
  head: Head = NO_HEAD;
  remindAtMs: number | null = null;

  /** Whether a commit is queued or being written. */
  pending = false;
  /** Commits that arrived meanwhile; they check again when the pending one has settled. */
  waiting: (() => void)[] | undefined;

  /** The newest durable commit. */
  lastLsn = 0;
  /** The overlay looks at the entity again when the store has this commit; 0 if it need not. */
  awaitedLsn = 0;
  /** Whether the overlay counts it among the states that it keeps although the store has them. */
  isKept = false;
  /** The last commit that changed the reminder, or whether the name exists. */
  nameLsn = 0;
  reminderLsn = 0;

  /** Keyed by table NUL key. */
  rows: Map<string, OverlayRow> | undefined;
  /** The newest messages without a hole up to the last one. */
  readonly blocks = new Fifo<TailBlock>();
  /** An evicted block, for the next one to use its object. */
  spareBlock: TailBlock | undefined;

  constructor(readonly entity: Entity) {}

  get exists(): boolean {
    return this.number !== 0;
  }
}
