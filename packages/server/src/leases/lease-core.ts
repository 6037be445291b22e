/**
 * Leases on the single messages of one log: which message is next, which holder has it until when, and what became of it. A
 * group's leader has one per stream of a queue, a puller's dispatcher one per topic. It reads no clock and no store.
 *
 * Invariants: a message has one lease at most, and a lease counts only under its own number. An acknowledged message is never
 * leased again. A message is leased in the order of the log, except that a later attempt may come after later messages. Leases
 * live in memory: the owner stores floor and blocks (`ack-ledger.ts`) and tells the holder of an acknowledgement after that.
 * Every operation takes constant time, or logarithmic in the number of messages that wait for another attempt.
 */
import { AckLedger } from "./ack-ledger.ts";
import type { Block } from "./block-row.ts";
import { SeqHeap } from "./seq-heap.ts";
import type { TimerWheel } from "./timer-wheel.ts";

export interface Lease {
  readonly seq: number;
  /** Unique among all leases of the owner, and greater than those of earlier owners. */
  readonly number: number;
  readonly holder: string;
  /** From 1 on. */
  readonly attempt: number;
  untilMs: number;
}

export interface LeaseCoreParts {
  /** All cores of an owner share it. */
  readonly wheel: TimerWheel<LeaseCore>;
  /** The number of the next lease. */
  readonly nextNumber: () => number;
  /** After so many attempts a message is dead; undefined for never. */
  readonly maxAttempts?: number | undefined;
  /** A lease has ended, in whatever way. */
  readonly ended?: ((lease: Lease) => void) | undefined;
  /** A message has had all its attempts. */
  readonly died?: ((seq: number, why: Reason) => void) | undefined;
}

export type Reason = "nack" | "lease-expired" | "holder-lost";

/** `gone`: the message is acknowledged, or its lease is another one. */
export type LeaseOutcome = "done" | "gone";

const NONE: readonly number[] = [];

export class LeaseCore {
  readonly acks: AckLedger;
  private readonly leases = new Map<number, Lease>();
  private readonly byHolder = new Map<string, Set<number>>();
  /** Messages for another attempt. Some may be acknowledged or dead by now. */
  private readonly again = new SeqHeap();
  /** Messages that have had all their attempts, until the owner has put them aside. */
  private readonly deadOnes = new Map<number, Reason>();
  /** The first message that was never leased. */
  private cursor: number;

  /** `tail`: the last message that exists. */
  constructor(
    private readonly parts: LeaseCoreParts,
    floor: number,
    private tail: number,
    blocks: Iterable<readonly [number, Block]> = [],
    now = 0,
  ) {
    this.acks = new AckLedger(floor, blocks);
    this.cursor = this.acks.floor + 1;
    for (const seq of this.acks.marked()) this.restore(seq, now);
  }

  /** A message that an earlier owner has seen attempts of. */
  private restore(seq: number, now: number): void {
    const untilMs = this.acks.delayOf(seq);
    if (this.isExhausted(seq)) this.die(seq, "holder-lost");
    else if (untilMs !== undefined && untilMs > now) this.parts.wheel.add(this, seq, untilMs);
    else this.again.add(seq);
  }

  get floor(): number {
    return this.acks.floor;
  }

  get outstanding(): number {
    return this.leases.size;
  }

  outstandingOf(holder: string): number {
    return this.byHolder.get(holder)?.size ?? 0;
  }

  /** The message that the holder has had for longest. */
  oldestOf(holder: string): number | undefined {
    return this.byHolder.get(holder)?.values().next().value;
  }

  /** Messages that have had all their attempts: the owner puts each into the dead-letter stream and then acknowledges it. */
  get dead(): ReadonlyMap<number, Reason> {
    return this.deadOnes;
  }

  /** Messages up to this one exist. */
  extendTail(seq: number): void {
    this.tail = Math.max(this.tail, seq);
  }

  /** The message that is leased next; undefined if none is ready. */
  next(): number | undefined {
    // A message that an earlier owner has seen attempts of may lie beyond what this one has read.
    for (let seq = this.again.first; seq !== undefined && seq <= this.tail; seq = this.again.first) {
      if (!this.acks.isAcked(seq) && !this.leases.has(seq) && !this.deadOnes.has(seq)) return seq;
      this.again.take();
    }
    while (this.cursor <= this.tail && !this.isFresh(this.cursor)) this.cursor++;
    return this.cursor <= this.tail ? this.cursor : undefined;
  }

  /** Messages with attempts are delayed, dead, or in the heap. */
  private isFresh(seq: number): boolean {
    return !this.acks.isAcked(seq) && this.acks.attemptsOf(seq) === 0 && this.acks.delayOf(seq) === undefined;
  }

  /** Leases the next message; undefined if none is ready. */
  lease(holder: string, now: number, leaseMs: number): Lease | undefined {
    const seq = this.next();
    if (seq === undefined) return undefined;
    if (seq === this.again.first) this.again.take();
    else this.cursor = seq + 1;
    return this.leaseAt(seq, holder, now, leaseMs);
  }

  /** Leases this message, for an owner with an order of its own. The message is neither acknowledged, leased nor dead. */
  leaseAt(seq: number, holder: string, now: number, leaseMs: number): Lease {
    this.acks.setDelay(seq, undefined);
    const attempt = this.acks.attemptsOf(seq) + 1;
    const lease = { seq, number: this.parts.nextNumber(), holder, attempt, untilMs: now + leaseMs };
    this.leases.set(seq, lease);
    const held = this.byHolder.get(holder) ?? new Set();
    this.byHolder.set(holder, held.add(seq));
    this.parts.wheel.add(this, seq, lease.untilMs);
    return lease;
  }

  /** For an owner with an order of its own: takes the messages that are ready for another attempt. */
  takeAgain(): readonly number[] {
    if (this.again.size === 0) return NONE;
    const taken: number[] = [];
    for (let seq = this.again.take(); seq !== undefined; seq = this.again.take()) taken.push(seq);
    return taken;
  }

  /** Ends a lease as if it had never been, for an owner with an order of its own. */
  withdraw(seq: number): void {
    const lease = this.leases.get(seq);
    if (lease !== undefined) this.end(lease);
  }

  /** Not to be leased before this time. */
  delay(seq: number, untilMs: number): void {
    this.acks.setDelay(seq, untilMs);
    this.waitFor(seq, untilMs);
  }

  /** Whether the message may be leased now. */
  isReady(seq: number): boolean {
    const { acks } = this;
    return !acks.isAcked(seq) && !this.leases.has(seq) && !this.deadOnes.has(seq) && acks.delayOf(seq) === undefined;
  }

  /** Whether this lease stands. */
  isLeased(seq: number, number: number): boolean {
    return this.standing(seq, number) !== undefined;
  }

  ack(seq: number, number: number): LeaseOutcome {
    const lease = this.standing(seq, number);
    if (lease === undefined) return "gone";
    this.end(lease);
    this.acks.ack(seq);
    return "done";
  }

  /** The holder gives the message back, for another attempt after a delay. */
  nack(seq: number, number: number, now: number, delayMs = 0): LeaseOutcome {
    const lease = this.standing(seq, number);
    if (lease === undefined) return "gone";
    this.giveBack(lease, "nack", delayMs > 0 ? now + delayMs : undefined);
    return "done";
  }

  extend(seq: number, number: number, now: number, leaseMs: number): LeaseOutcome {
    const lease = this.standing(seq, number);
    if (lease === undefined) return "gone";
    const untilMs = now + leaseMs;
    // A message that comes up too early is added again, one that would come too late is not found in time.
    if (untilMs < lease.untilMs) this.parts.wheel.add(this, seq, untilMs);
    lease.untilMs = untilMs;
    return "done";
  }

  /** Gives back all messages of a holder. `isGraceful`: it never began with them, so that the attempt does not count. */
  release(holder: string, isGraceful: boolean): void {
    for (const seq of [...(this.byHolder.get(holder) ?? [])]) {
      const lease = this.leases.get(seq)!;
      if (!isGraceful) this.giveBack(lease, "holder-lost");
      else {
        this.end(lease);
        this.again.add(seq);
      }
    }
  }

  /** The wheel has brought the message up. */
  due(seq: number, now: number): void {
    const lease = this.leases.get(seq);
    if (lease !== undefined) {
      if (lease.untilMs <= now) this.giveBack(lease, "lease-expired");
      else this.parts.wheel.add(this, seq, lease.untilMs);
      return;
    }
    const untilMs = this.acks.delayOf(seq);
    if (untilMs === undefined || this.acks.isAcked(seq)) return;
    if (untilMs > now) this.waitFor(seq, untilMs);
    else {
      this.acks.setDelay(seq, undefined);
      this.again.add(seq);
    }
  }

  /** The owner puts no message aside any more, so this one is attempted again. */
  revive(seq: number): void {
    if (this.deadOnes.delete(seq)) this.again.add(seq);
  }

  /** The message was put aside, or its log does not have it any more. */
  drop(seq: number): void {
    this.deadOnes.delete(seq);
    const lease = this.leases.get(seq);
    if (lease !== undefined) this.end(lease);
    this.acks.ack(seq);
  }

  /** Everything up to and including this message is over: retention took it, or the consumer seeks forward. */
  dropThrough(seq: number): void {
    for (const lease of [...this.leases.values()]) if (lease.seq <= seq) this.end(lease);
    for (const dead of [...this.deadOnes.keys()]) if (dead <= seq) this.deadOnes.delete(dead);
    this.acks.ackThrough(seq);
    this.cursor = Math.max(this.cursor, this.acks.floor + 1);
  }

  /** The messages after this one are new: a failover lost the earlier ones, or the consumer seeks back. No lease survives. */
  rewind(seq: number, tail: number): void {
    for (const lease of [...this.leases.values()]) this.end(lease);
    this.deadOnes.clear();
    this.again.clear();
    this.acks.rewind(seq);
    this.tail = tail;
    this.cursor = this.acks.floor + 1;
    for (const marked of this.acks.marked()) this.restore(marked, 0);
  }

  private standing(seq: number, number: number): Lease | undefined {
    const lease = this.leases.get(seq);
    return lease?.number === number ? lease : undefined;
  }

  private giveBack(lease: Lease, why: Reason, delayedUntilMs?: number): void {
    const { seq, attempt } = lease;
    this.end(lease);
    this.acks.setAttempts(seq, attempt);
    if (this.isExhausted(seq)) this.die(seq, why);
    else if (delayedUntilMs === undefined) this.again.add(seq);
    else {
      this.acks.setDelay(seq, delayedUntilMs);
      this.waitFor(seq, delayedUntilMs);
    }
  }

  private die(seq: number, why: Reason): void {
    this.deadOnes.set(seq, why);
    this.parts.died?.(seq, why);
  }

  private waitFor(seq: number, untilMs: number): void {
    this.parts.wheel.add(this, seq, untilMs);
  }

  private isExhausted(seq: number): boolean {
    const { maxAttempts } = this.parts;
    return maxAttempts !== undefined && this.acks.attemptsOf(seq) >= maxAttempts;
  }

  private end(lease: Lease): void {
    const { seq, holder } = lease;
    this.parts.ended?.(lease);
    this.leases.delete(seq);
    const held = this.byHolder.get(holder);
    held?.delete(seq);
    if (held?.size === 0) this.byHolder.delete(holder);
  }
}
