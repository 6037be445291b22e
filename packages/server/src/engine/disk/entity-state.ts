/**
 * What memory holds of an entity while something of it is not in the store yet, or its newest messages are cached.
 * An entity at rest has none of this: it costs nothing.
 *
 * What must stay true: number, rev, head and reminder are those of the last durable commit; a queued one shows nowhere.
 */
import { type Entity, type Head, NO_HEAD } from "../contract.ts";
import { Fifo } from "./fifo.ts";
import type { Piece } from "./slab.ts";

/** A row that the store does not have yet. */
export interface OverlayRow {
  /** The commit that wrote it; `IN_STORE` when the store has it by now, and only its place is kept for the next one. */
  lsn: number;
  /** Undefined when it was dropped. */
  value: Buffer | undefined;
  /** What the value is a part of, unless it is large. */
  piece: Piece | undefined;
}

export const IN_STORE = 0;

/** Consecutive messages in memory, still encoded; those of later commits are added behind them. */
export interface TailBlock {
  /** Undefined once the messages are gone for readers. */
  state: EntityState | undefined;
  /** The newest commit with messages here. */
  lsn: number;
  /** Records up to `used`, room behind it. Never overwritten once a reader has seen it, because readers hold views. */
  buffer: Buffer;
  /** What the buffer is a part of, unless it is large. */
  readonly piece: Piece | undefined;
  /** How much of the cache's memory it takes. */
  readonly room: number;
  used: number;
  readonly firstSeq: number;
  count: number;
  /** Where the newest commit's messages start: what a reader at the tail looks for. */
  newestSeq: number;
  newestAt: number;
}

export class EntityState {
  /** The number of the incarnation; 0 when the entity does not exist. */
  number = 0;
  rev = 0;
  head: Head = NO_HEAD;
  remindAtMs: number | null = null;

  /** Whether a commit is queued or being written. */
  pending = false;
  /** Commits that arrived meanwhile; they look again when it has settled. */
  waiting: (() => void)[] | undefined;

  /** The newest durable commit. */
  lastLsn = 0;
  /** Whether the overlay already waits for the store to have it. */
  awaited = false;
  /** Commits up to here changed whether the name exists, or the reminder. */
  nameLsn = 0;
  reminderLsn = 0;

  /** By table NUL key. */
  rows: Map<string, OverlayRow> | undefined;
  /** The newest messages without a hole up to the last one. */
  readonly blocks = new Fifo<TailBlock>();

  constructor(readonly entity: Entity) {}

  get exists(): boolean {
    return this.number !== 0;
  }
}
