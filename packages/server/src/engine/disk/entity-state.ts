/**
 * An entity in memory, while the store lacks some of it or its newest messages are cached. The engine and the overlay use it. An
 * idle entity has no such object and costs nothing.
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
  /** Undefined for a dropped row. */
  value: Buffer | undefined;
  /** The piece that holds the value's memory; undefined for a large value. */
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
   * Records up to `used`, free room behind it. Bytes that a reader has seen are never overwritten, because readers hold views.
   */
  buffer: Buffer;
  /** The piece that holds the buffer's memory; undefined for a large buffer. */
  readonly piece: Piece | undefined;
  /** The share of the cache's budget that the block takes. */
  readonly room: number;
  used: number;
  readonly firstSeq: number;
  count: number;
  /** The number of the newest commit's first message, where most readers at the tail start. */
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
  /** Whether the entity is already queued in the overlay until the store has `lastLsn`. */
  awaited = false;
  /** The last commit that changed the reminder, or whether the name exists. */
  nameLsn = 0;
  reminderLsn = 0;

  /** Keyed by table NUL key. */
  rows: Map<string, OverlayRow> | undefined;
  /** The newest messages without a hole up to the last one. */
  readonly blocks = new Fifo<TailBlock>();

  constructor(readonly entity: Entity) {}

  get exists(): boolean {
    return this.number !== 0;
  }
}
