/**
 * One log of a subscription as its dispatcher sees it: what was read, what is leased in which order, what is acknowledged. Pure
 * but for the messages that it is given; the dispatcher reads them and stores what has changed.
 *
 * Invariants: a message is delivered only if it matches the filter, is not a repetition and is not too old; any other is
 * acknowledged here. Whatever ends a lease, `settle` follows, so that the order agrees with the leases.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { backoffMs } from "../core/backoff.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import type { Block } from "../leases/block-row.ts";
import { type Lease, LeaseCore, type Reason } from "../leases/lease-core.ts";
import type { TimerWheel } from "../leases/timer-wheel.ts";
import type { AckId } from "./ack-id.ts";
import type { SubscriptionOptions } from "./contract.ts";
import type { Filter } from "./filter.ts";
import { DELIVER_AT, sizeOf } from "./message.ts";
import { ReadyOrder } from "./ready-order.ts";
import { RecentIds } from "./recent-ids.ts";
import type { LogState } from "./rules.ts";
import type { LogRow } from "./state.ts";

/** The number of messages before one in which a repetition of its id is looked for. */
export const DEDUPLICATION_WINDOW = 10_000;
/** Acknowledged leases that an exactly-once subscription remembers, so that a repeated acknowledgement is confirmed. */
const REMEMBERED_ACKS = 100_000;

export interface LogParts {
  readonly wheel: TimerWheel<LeaseCore>;
  readonly nextNumber: () => number;
  readonly filter: Filter | undefined;
  /** The newest ones; they may change. */
  readonly options: () => SubscriptionOptions;
  /** A lease has ended, so its holder has room. */
  readonly freed: (lease: Lease, bytes: number) => void;
  /** Bytes that are kept of messages that were read and not leased. */
  readonly cacheBytes: number;
}

/** Where a dispatcher begins with a log. */
export interface LogStart extends Pick<LogRow, "at" | "marked"> {
  /** The last message of the log at that time. An earlier dispatcher has leased none after it. */
  readonly head: Position;
}

export interface Taken {
  readonly lease: Lease;
  readonly position: Position;
  /** Undefined if it must be read again. */
  readonly message: LoggedMessage | undefined;
}

export class PulledLog {
  readonly core: LeaseCore;
  /** The last message that was read. */
  tail: Position;
  /** The floor that is stored. Retention may take what it has passed. */
  durableFloor: Position;
  /** A read is in flight; the log has no more messages than were read. */
  isReading = false;
  isDry = false;
  private readonly order: ReadyOrder;
  private recent: RecentIds | undefined;
  private generations: { readonly from: number; readonly generation: number }[];
  private readonly ended: Lease[] = [];
  /** The size of every message that was read and is not done. Its payload may be gone from the cache. */
  private readonly sizes = new Map<number, number>();
  private readonly cache = new Map<number, LoggedMessage>();
  private cachedBytes = 0;
  private readonly ackedBy = new Map<number, number>();
  private storedFloor: number;
  private readonly head: Position;
  /** The last message that this dispatcher or an earlier one has read. */
  private marked: Position;

  constructor(
    private readonly parts: LogParts,
    readonly index: number,
    readonly path: string,
    { at: floor, marked = floor, head }: LogStart,
    blocks: Iterable<readonly [number, Block]>,
    now: number,
  ) {
    this.durableFloor = floor;
    this.marked = marked;
    this.head = head;
    const { wheel, nextNumber, options } = parts;
    const { isOrdered, deduplicates } = options();
    const core = {
      wheel,
      nextNumber,
      get maxAttempts() {
        return options().deadLetter?.maxAttempts;
      },
      ended: (lease: Lease) => {
        this.ended.push(lease);
        parts.freed(lease, this.bytesOf(lease.seq));
      },
    };
    this.core = new LeaseCore(core, floor.seq, floor.seq, blocks, now);
    this.order = new ReadyOrder(isOrdered);
    this.generations = [{ from: 0, generation: floor.generation }];
    this.storedFloor = this.core.floor;
    const back = deduplicates ? DEDUPLICATION_WINDOW : 0;
    this.tail = { generation: floor.generation, seq: Math.max(0, floor.seq - back) };
  }

  /** Messages that were read and are neither leased nor done. */
  get ahead(): number {
    return this.order.size;
  }

  /** Messages that follow the last one that was read. */
  read(messages: readonly LoggedMessage[], now: number): void {
    if (!this.parts.options().deduplicates) this.recent = undefined;
    else this.recent ??= new RecentIds(DEDUPLICATION_WINDOW);
    for (const message of messages) {
      this.moveTail(message.position);
      const { seq } = message.position;
      const isRepeated = message.id !== undefined && this.recent?.isRepeated(message.id, seq);
      if (this.core.acks.isAcked(seq)) continue;
      if (isRepeated || !this.isWanted(message, now)) this.drop(seq);
      else this.take(message, now);
    }
    this.settle(now);
  }

  /** Whether it matches the filter and is not too old. */
  isWanted({ attributes = NO_ATTRIBUTES, at }: LoggedMessage, now: number): boolean {
    const { retentionMs } = this.parts.options();
    if (retentionMs !== undefined && at + retentionMs < now) return false;
    return this.parts.filter?.(attributes) ?? true;
  }

  private take(message: LoggedMessage, now: number): void {
    const { core } = this;
    const { seq } = message.position;
    const deliverAtMs = Number(message.attributes?.[DELIVER_AT] ?? 0);
    if (deliverAtMs > now && core.acks.delayOf(seq) === undefined) core.delay(seq, deliverAtMs);
    if (this.parts.options().isOrdered || core.isReady(seq)) this.order.add(seq, message.key);
    this.sizes.set(seq, sizeOf(message));
    this.remember(seq, message);
  }

  private remember(seq: number, message: LoggedMessage): void {
    this.cache.set(seq, message);
    this.cachedBytes += sizeOf(message);
    if (this.cachedBytes <= this.parts.cacheBytes) return;
    for (const oldest of this.cache.keys()) {
      if (this.cachedBytes <= this.parts.cacheBytes || oldest === seq) return;
      this.forget(oldest);
    }
  }

  private forget(seq: number): LoggedMessage | undefined {
    const message = this.cache.get(seq);
    if (message === undefined) return undefined;
    this.cache.delete(seq);
    this.cachedBytes -= sizeOf(message);
    return message;
  }

  private moveTail(position: Position): void {
    const { tail, marked } = this;
    // A known number in a later generation: the log lost its end in a failover, perhaps under an earlier dispatcher.
    const isReplaced = position.seq <= marked.seq && position.generation > marked.generation;
    if (isReplaced || (position.seq <= tail.seq && comparePositions(position, tail) > 0)) {
      this.core.rewind(position.seq - 1, position.seq - 1);
      this.order.forget((seq) => seq >= position.seq);
      this.generations = this.generations.filter(({ from }) => from < position.seq);
      this.cache.clear();
      this.cachedBytes = 0;
    }
    if (isReplaced || comparePositions(position, marked) > 0) this.marked = position;
    if (position.generation !== this.generations.at(-1)?.generation) {
      this.generations.push({ from: position.seq, generation: position.generation });
    }
    this.tail = position;
  }

  /** Retention took what was not acknowledged. */
  trimmed(through: Position, now: number): void {
    this.moveTail(through);
    this.core.dropThrough(through.seq);
    this.order.forget((seq) => seq <= through.seq);
    for (const seq of this.cache.keys()) if (seq <= through.seq) this.forget(seq);
    for (const seq of this.sizes.keys()) if (seq <= through.seq) this.sizes.delete(seq);
    this.settle(now);
  }

  /**
   * Messages that have had all their attempts. One that died under an earlier dispatcher comes when it has been read, because only
   * then its position is known.
   */
  *dead(): Iterable<readonly [seq: number, why: Reason]> {
    for (const one of this.core.dead) if (one[0] <= this.tail.seq) yield one;
  }

  /** Whether this very message waits to be put aside. */
  isDead(position: Position): boolean {
    const { seq } = position;
    return this.core.dead.has(seq) && comparePositions(this.positionOf(seq), position) === 0;
  }

  /** A dead message is attempted again after all. */
  revive(seq: number, now: number): void {
    this.core.revive(seq);
    this.settle(now);
  }

  /** Leases the next message that is ready to a holder; undefined if there is none. */
  lease(holder: string, isSequential: boolean, now: number, leaseMs: number): Taken | undefined {
    const { core, order } = this;
    for (;;) {
      const seq = order.take(holder, isSequential, this.isReady);
      if (seq === undefined) return undefined;
      const message = this.forget(seq);
      if (message !== undefined && !this.isWanted(message, now)) {
        this.drop(seq);
        continue;
      }
      const lease = core.leaseAt(seq, holder, now, leaseMs);
      return { lease, position: this.positionOf(seq), message };
    }
  }

  private readonly isReady = (seq: number): boolean => this.core.isReady(seq);

  /** What a message counts for flow control, from its lease to the end of that lease. */
  bytesOf(seq: number): number {
    return this.sizes.get(seq) ?? 0;
  }

  /** `isCurrentTerm`: the lease was given by this dispatcher. */
  ack(id: AckId, isCurrentTerm: boolean, now: number): "done" | "gone" {
    const { core } = this;
    const { isExactlyOnce } = this.parts.options();
    const { seq, lease } = id;
    if (core.ack(seq, lease) === "done") {
      if (isExactlyOnce) this.rememberAck(seq, lease);
      this.settle(now);
      return "done";
    }
    if (isExactlyOnce) return this.ackedBy.get(seq) === lease ? "done" : "gone";
    if (core.acks.isAcked(seq)) return "done";
    // The lease is over, but the client has processed the message. One that was not read yet was leased by an earlier dispatcher.
    const isRead = seq <= this.tail.seq;
    const isEarlier = !isCurrentTerm && this.mayBeEarlier(id);
    if (isRead ? this.positionOf(seq).generation !== id.generation : !isEarlier) return "gone";
    // If the log has lost this message, another one has its number. `marked` tells them apart when that one is read.
    const position = { generation: id.generation, seq };
    if (comparePositions(position, this.marked) > 0) this.marked = position;
    this.drop(seq);
    this.settle(now);
    return "done";
  }

  /**
   * Whether an earlier dispatcher may have leased this message. Leases are not stored, so a made-up id passes too: it acknowledges
   * a message that its caller could pull and acknowledge. The head bounds the blocks and generations that such ids can store.
   */
  private mayBeEarlier({ generation, seq }: AckId): boolean {
    return generation >= this.floor.generation && generation <= this.head.generation && seq <= this.head.seq;
  }

  private rememberAck(seq: number, lease: number): void {
    this.ackedBy.set(seq, lease);
    if (this.ackedBy.size <= REMEMBERED_ACKS) return;
    const [oldest] = this.ackedBy.keys();
    this.ackedBy.delete(oldest!);
  }

  nack({ seq, lease }: AckId, now: number, delayMs: number | undefined): "done" | "gone" {
    const outcome = this.core.nack(seq, lease, now, delayMs);
    this.settle(now);
    return outcome;
  }

  extend({ seq, lease }: AckId, now: number, leaseMs: number): "done" | "gone" {
    return this.core.extend(seq, lease, now, leaseMs);
  }

  /** Leases or delays may have run out. */
  due(seqs: readonly number[], now: number): void {
    for (const seq of seqs) {
      this.core.due(seq, now);
      this.settle(now);
    }
  }

  /** The message will never be delivered: it does not exist any more, or was put aside. */
  drop(seq: number): void {
    this.core.drop(seq);
    this.order.done(seq);
    this.forget(seq);
    this.sizes.delete(seq);
  }

  /** Takes a lease back, as if it had never been. */
  withdraw(seq: number, now: number): void {
    this.core.withdraw(seq);
    this.settle(now);
  }

  /** Ends all leases; the log is used no more. */
  rest(now: number): void {
    this.core.rewind(0, 0);
    this.settle(now);
  }

  /** Brings the order in line with the leases that have ended. */
  settle(now: number): void {
    // A lease that is released may end others.
    for (let i = 0; i < this.ended.length; i++) this.release(this.ended[i]!, now);
    this.ended.length = 0;
    const { core } = this;
    for (const seq of core.takeAgain()) {
      if ((core.acks.delayOf(seq) ?? 0) > now) continue;
      core.acks.setDelay(seq, undefined);
      if (seq <= this.tail.seq && core.isReady(seq)) this.order.ready(seq);
    }
  }

  private release(lease: Lease, now: number): void {
    const { core, order } = this;
    const { seq, attempt } = lease;
    if (core.acks.isAcked(seq)) {
      order.done(seq);
      this.sizes.delete(seq);
      return;
    }
    for (const later of order.back(seq)) core.withdraw(later);
    const { retryPolicy } = this.parts.options();
    const isCounted = core.acks.attemptsOf(seq) === attempt;
    if (!isCounted) {
      // The lease was taken back, by itself or with all others. A message beyond the tail is gone.
      if (seq <= this.tail.seq) order.ready(seq);
      return;
    }
    if (retryPolicy === undefined || core.acks.delayOf(seq) !== undefined || core.dead.has(seq)) return;
    const { minBackoffMs: firstMs, maxBackoffMs: maxMs } = retryPolicy;
    core.delay(seq, now + backoffMs(attempt, { firstMs, maxMs }));
  }

  positionOf(seq: number): Position {
    let { generation } = this.generations[0]!;
    for (const one of this.generations) if (one.from <= seq) generation = one.generation;
    return { generation, seq };
  }

  get floor(): Position {
    return this.positionOf(this.core.floor);
  }

  get isChanged(): boolean {
    return this.core.acks.isChanged || this.core.floor !== this.storedFloor;
  }

  /** What differs from the rows. It counts as written from now on, and `durableFloor` follows when it is. */
  takeChanges(): LogState {
    this.storedFloor = this.core.floor;
    return { at: this.floor, marked: this.marked, blocks: this.core.acks.takeChanged() };
  }

  /** These changes were not stored after all. */
  redo({ blocks }: LogState): void {
    this.storedFloor = -1;
    this.core.acks.redo(blocks.keys());
  }
}

const NO_ATTRIBUTES = {};
