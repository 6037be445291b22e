/**
 * The newest messages of streams, in memory and still encoded, so that readers at the tail never touch the store. The overlay
 * adds durable messages and reports what was applied.
 *
 * Invariants: the cache owns its bytes, which are never a slice of a small commit's buffer. Messages that are not applied stay;
 * of the rest, the oldest are evicted once the budget is used up. A block holds many commits, so that a million small messages
 * are not a million objects.
 */
import type { AppendedRange } from "./commit-block.ts";
import type { EntityState, TailBlock } from "./entity-state.ts";
import { Fifo } from "./fifo.ts";
import { OWN_BYTES, Slab } from "./slab.ts";

/** The cost of a block besides its bytes: the objects around it. */
const BLOCK_COST = 256;
/** A larger append has a block of its own: its commit's memory, which no other block shares. */
const BLOCK_BYTES = OWN_BYTES;
/** The most room of a block that later commits may fill. It shares a piece, so that its memory is used again after its eviction. */
const MOST_ROOM = OWN_BYTES - 1;
const EMPTY = Buffer.alloc(0);

export class TailCache {
  private readonly blocks = new Fifo<TailBlock>();
  private readonly slab = new Slab();
  /** Includes dropped blocks until their eviction, because other blocks keep their piece of memory alive. */
  private bytes = 0;

  constructor(
    private readonly budget: number,
    /** Called when a block of a state was evicted. */
    private readonly evicted: (state: EntityState) => void,
  ) {}

  add(state: EntityState, lsn: number, commit: Buffer, range: AppendedRange): void {
    const last = state.blocks.last();
    const bytes = range.end - range.start;
    if (last !== undefined && last.to + bytes <= last.end) this.extend(last, lsn, commit, range);
    else this.start(state, lsn, commit, range, this.room(bytes, last));
  }

  /**
   * Each block of a stream has twice the room of the one before. So a busy stream has few blocks and an idle one little memory.
   */
  private room(bytes: number, last: TailBlock | undefined): number {
    if (bytes >= BLOCK_BYTES) return bytes;
    return Math.max(bytes, Math.min(MOST_ROOM, last === undefined ? 0 : 2 * (last.to - last.from)));
  }

  private start(state: EntityState, lsn: number, commit: Buffer, range: AppendedRange, room: number): void {
    const { firstSeq, count, start, end } = range;
    // Most of a large commit is its messages, so a copy would gain nothing.
    const isOwn = end - start >= BLOCK_BYTES;
    const from = isOwn ? start : this.slab.takePlace(room);
    const memory = isOwn ? commit : this.slab.lastMemory;
    const piece = isOwn ? undefined : this.slab.lastPiece;
    const block = state.spareBlock ?? newBlock();
    state.spareBlock = undefined;
    block.state = state;
    block.lsn = lsn;
    block.memory = memory;
    block.from = from;
    block.to = from + end - start;
    block.end = from + room;
    block.piece = piece;
    block.firstSeq = firstSeq;
    block.count = count;
    block.newestSeq = firstSeq;
    block.newestAt = from;
    if (!isOwn) commit.copy(memory, from, start, end);
    state.blocks.push(block);
    this.blocks.push(block);
    this.bytes += costOf(block);
  }

  private extend(block: TailBlock, lsn: number, commit: Buffer, { firstSeq, count, start, end }: AppendedRange): void {
    commit.copy(block.memory, block.to, start, end);
    block.newestSeq = firstSeq;
    block.newestAt = block.to;
    block.to += end - start;
    block.count += count;
    block.lsn = lsn;
  }

  /** Drops an entity's blocks whose messages are all at or before `seq`. */
  drop(state: EntityState, seq: number): void {
    let block = state.blocks.at(0);
    while (block !== undefined && block.firstSeq + block.count - 1 <= seq) {
      state.blocks.shift();
      block.state = undefined;
      block.memory = EMPTY;
      block = state.blocks.at(0);
    }
  }

  /** Evicts the oldest applied blocks, down to the budget. */
  evict(appliedThrough: number): void {
    let block = this.blocks.at(0);
    while (
      block !== undefined &&
      (block.state === undefined || (this.bytes > this.budget && block.lsn <= appliedThrough))
    ) {
      this.blocks.shift();
      this.bytes -= costOf(block);
      this.slab.giveBack(block.piece);
      const { state } = block;
      if (state !== undefined) {
        state.blocks.shift();
        block.memory = EMPTY;
        block.piece = undefined;
        state.spareBlock = block;
        this.evicted(state);
      }
      block = this.blocks.at(0);
    }
  }
}

function costOf({ from, end }: TailBlock): number {
  return end - from + BLOCK_COST;
}

function newBlock(): TailBlock {
  return {
    state: undefined,
    lsn: 0,
    memory: EMPTY,
    from: 0,
    to: 0,
    end: 0,
    piece: undefined,
    firstSeq: 0,
    count: 0,
    newestSeq: 0,
    newestAt: 0,
  };
}
