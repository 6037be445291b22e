/**
 * The newest messages of streams, in memory and still encoded, so that readers at the tail never touch the store. The overlay
 * adds what becomes durable and says what was applied.
 *
 * What must stay true: the bytes are the cache's own, never a slice of a small commit's buffer. What is not applied stays; of
 * the rest the oldest go first once the budget is used up. A block holds many commits, so that a million small messages are
 * not a million objects.
 */
import type { AppendedRange } from "./commit-block.ts";
import type { EntityState, TailBlock } from "./entity-state.ts";
import { Fifo } from "./fifo.ts";

/** What a block costs besides its bytes: the objects around it. */
const BLOCK_COST = 256;
/** A block grows to this size; larger appends have one of their own. */
const BLOCK_BYTES = 16 * 1_024;
const EMPTY = Buffer.alloc(0);

export class TailCache {
  private readonly blocks = new Fifo<TailBlock>();
  private bytes = 0;

  constructor(
    private readonly budget: number,
    /** Called when a block of a state was evicted. */
    private readonly evicted: (state: EntityState) => void,
  ) {}

  add(state: EntityState, lsn: number, commit: Buffer, range: AppendedRange): void {
    const last = state.blocks.last();
    if (last !== undefined && last.used + range.end - range.start <= BLOCK_BYTES) this.extend(last, lsn, commit, range);
    else this.start(state, lsn, commit, range);
  }

  private start(state: EntityState, lsn: number, commit: Buffer, { firstSeq, count, start, end }: AppendedRange): void {
    const records = commit.subarray(start, end);
    // Most of a large commit is its messages; copying them would gain nothing.
    const buffer = records.length >= BLOCK_BYTES ? records : Buffer.from(records);
    const block = { state, lsn, buffer, used: buffer.length, firstSeq, count, newestSeq: firstSeq, newestAt: 0 };
    state.blocks.push(block);
    this.blocks.push(block);
    this.bytes += buffer.length + BLOCK_COST;
  }

  private extend(block: TailBlock, lsn: number, commit: Buffer, { firstSeq, count, start, end }: AppendedRange): void {
    const used = block.used + end - start;
    if (used > block.buffer.length) this.grow(block, used);
    commit.copy(block.buffer, block.used, start, end);
    block.newestSeq = firstSeq;
    block.newestAt = block.used;
    block.used = used;
    block.count += count;
    block.lsn = lsn;
  }

  private grow(block: TailBlock, needed: number): void {
    const buffer = Buffer.allocUnsafeSlow(Math.min(BLOCK_BYTES, Math.max(needed, 2 * block.buffer.length)));
    block.buffer.copy(buffer, 0, 0, block.used);
    this.bytes += buffer.length - block.buffer.length;
    block.buffer = buffer;
  }

  /** Lets go of an entity's blocks whose messages are all at or before `seq`. */
  drop(state: EntityState, seq: number): void {
    let block = state.blocks.at(0);
    while (block !== undefined && block.firstSeq + block.count - 1 <= seq) {
      state.blocks.shift();
      this.bytes -= block.buffer.length;
      block.state = undefined;
      block.buffer = EMPTY;
      block = state.blocks.at(0);
    }
  }

  /** Forgets the oldest blocks that the store has, down to the budget. */
  evict(appliedThrough: number): void {
    let block = this.blocks.at(0);
    while (
      block !== undefined &&
      (block.state === undefined || (this.bytes > this.budget && block.lsn <= appliedThrough))
    ) {
      this.blocks.shift();
      this.bytes -= block.buffer.length + BLOCK_COST;
      if (block.state !== undefined) {
        block.state.blocks.shift();
        this.evicted(block.state);
      }
      block = this.blocks.at(0);
    }
  }
}
