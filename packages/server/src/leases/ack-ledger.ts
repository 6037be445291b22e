/**
 * What outlives a lease: which messages of a log are acknowledged, and for the others their attempts and delays. A floor, below
 * which all are acknowledged, and blocks of 4,096 messages above it. `lease-core.ts` owns one per log; its owner stores the rows
 * that have changed.
 *
 * Invariants: the floor never falls, except by `rewind`. No block lies wholly at or below the floor. An acknowledged message has
 * neither attempts nor a delay. Messages are named by their sequence number, which has no holes.
 */
import { BLOCK, type Block, newBlock } from "./block-row.ts";

const FULL = 0xff;

export class AckLedger {
  private readonly blocks: Map<number, Block>;
  /** Blocks that differ from their row; one that is gone is dropped. */
  private readonly changed = new Set<number>();

  constructor(
    private base: number,
    blocks: Iterable<readonly [number, Block]> = [],
  ) {
    this.blocks = new Map(blocks);
    this.raise();
  }

  /** Every message up to and including this one is acknowledged. */
  get floor(): number {
    return this.base;
  }

  /** How many messages above the floor are acknowledged. Its cost follows from the number of blocks. */
  get ackedAbove(): number {
    let count = 0;
    for (const [number, { acked }] of this.blocks) {
      const below = Math.max(0, Math.min(BLOCK, this.base + 1 - number * BLOCK));
      for (let index = below; index < BLOCK; index++) if ((acked[index >> 3]! & (1 << (index & 7))) !== 0) count++;
    }
    return count;
  }

  isAcked(seq: number): boolean {
    if (seq <= this.base) return true;
    const block = this.blocks.get(blockOf(seq));
    const index = seq % BLOCK;
    return block !== undefined && (block.acked[index >> 3]! & (1 << (index & 7))) !== 0;
  }

  ack(seq: number): void {
    if (this.isAcked(seq)) return;
    const block = this.change(seq);
    const index = seq % BLOCK;
    block.acked[index >> 3]! |= 1 << (index & 7);
    block.attempts.delete(index);
    block.delays.delete(index);
    if (seq === this.base + 1) this.raise();
  }

  /** Acknowledges everything up to and including this message. */
  ackThrough(seq: number): void {
    if (seq <= this.base) return;
    const before = blockOf(this.base + 1);
    this.base = seq;
    for (const number of this.blocks.keys()) if (number >= before && number < blockOf(seq + 1)) this.drop(number);
    this.raise();
  }

  /** Forgets what is known of the messages after this one: a failover lost them, or the consumer seeks back. */
  rewind(seq: number): void {
    this.base = Math.min(this.base, seq);
    for (const [number, block] of this.blocks) {
      if (number * BLOCK > seq) this.drop(number);
      else if ((number + 1) * BLOCK > seq + 1) {
        for (let index = (seq + 1) % BLOCK; index < BLOCK; index++) block.acked[index >> 3]! &= ~(1 << (index & 7));
        for (const map of [block.attempts, block.delays]) {
          for (const index of map.keys()) if (number * BLOCK + index > seq) map.delete(index);
        }
        this.changed.add(number);
      }
    }
  }

  attemptsOf(seq: number): number {
    return this.blocks.get(blockOf(seq))?.attempts.get(seq % BLOCK) ?? 0;
  }

  delayOf(seq: number): number | undefined {
    return this.blocks.get(blockOf(seq))?.delays.get(seq % BLOCK);
  }

  setAttempts(seq: number, count: number): void {
    this.change(seq).attempts.set(seq % BLOCK, count);
  }

  /** Undefined removes the delay. */
  setDelay(seq: number, untilMs: number | undefined): void {
    if (untilMs === undefined) {
      if (this.delayOf(seq) !== undefined) this.change(seq).delays.delete(seq % BLOCK);
    } else this.change(seq).delays.set(seq % BLOCK, untilMs);
  }

  /** The messages with attempts or a delay, in no particular order. */
  *marked(): Iterable<number> {
    for (const [number, { attempts, delays }] of this.blocks) {
      for (const index of new Set([...attempts.keys(), ...delays.keys()])) yield number * BLOCK + index;
    }
  }

  get isChanged(): boolean {
    return this.changed.size > 0;
  }

  /**
   * Copies of the blocks that differ from their rows, an undefined one to be dropped. They count as stored from now on. A block that
   * changed on its way to the store would raise the floor above the position that is stored with it.
   */
  takeChanged(): Map<number, Block | undefined> {
    const taken = new Map<number, Block | undefined>();
    for (const number of this.changed) {
      const block = this.blocks.get(number);
      taken.set(number, block && copyOf(block));
    }
    this.changed.clear();
    return taken;
  }

  /** These blocks were not stored after all. */
  redo(numbers: Iterable<number>): void {
    for (const number of numbers) this.changed.add(number);
  }

  private change(seq: number): Block {
    const number = blockOf(seq);
    let block = this.blocks.get(number);
    if (block === undefined) {
      block = newBlock();
      this.blocks.set(number, block);
    }
    this.changed.add(number);
    return block;
  }

  private drop(number: number): void {
    this.blocks.delete(number);
    this.changed.add(number);
  }

  /** Moves the floor over what is acknowledged already, and drops the blocks below it. */
  private raise(): void {
    const before = blockOf(this.base + 1);
    for (;;) {
      const next = this.base + 1;
      const block = this.blocks.get(blockOf(next));
      const index = next % BLOCK;
      const byte = block?.acked[index >> 3] ?? 0;
      if (byte === FULL && (index & 7) === 0) this.base += 8;
      else if ((byte & (1 << (index & 7))) !== 0) this.base++;
      else break;
    }
    const after = blockOf(this.base + 1);
    for (let number = before; number < after; number++) if (this.blocks.has(number)) this.drop(number);
  }
}

function blockOf(seq: number): number {
  return Math.floor(seq / BLOCK);
}

function copyOf({ acked, attempts, delays }: Block): Block {
  return { acked: acked.slice(), attempts: new Map(attempts), delays: new Map(delays) };
}
