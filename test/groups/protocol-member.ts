/**
 * A member of the group in a `ProtocolWorld`: a client that processes messages, the session that delivers them, and the borrower
 * of the moment.
 *
 * Invariants: the session does what the borrower's effects ask of it, and no more: it delivers within its credit, stops where a
 * stream is revoked, and reports what the client has processed.
 */
import { borrowerDueMs, borrowerStep, holdsUntilMs } from "../../packages/server/src/groups/borrower-rules.ts";
import { type Borrower, type BorrowerEvent, newBorrower } from "../../packages/server/src/groups/borrower-state.ts";
import type { BorrowerAddress, LeaderAddress, Leased, ToLeader } from "../../packages/server/src/groups/messages.ts";
import { nameOf, type ProtocolWorld, TIMERS } from "./protocol-world.ts";

export interface Pace {
  readonly processMs: number;
  /** The share of messages that take ten times as long. */
  readonly stalls: number;
  /** Of a queue: the share of messages that are refused. */
  readonly refusals: number;
  readonly credit: number;
}

/** What the session knows of a granted stream. */
interface Open {
  readonly epoch: number;
  generation: number;
  /** The last message that was delivered, and the last one that was processed. */
  delivered: number;
  processed: number;
  isDraining: boolean;
  /** A consumer works on one message of a stream after another. */
  busyUntilMs: number;
}

/** A member with its session, its agent and the borrower of the moment. */
export class TestMember {
  id = "";
  borrower!: Borrower;
  isGone = false;
  isUnsubscribed = false;
  readonly open = new Map<string, Open>();
  restarts = -1;
  /** Of a queue: leases that the client has acknowledged. */
  private readonly acked = new Set<number>();
  private timerAtMs = Number.POSITIVE_INFINITY;

  constructor(
    private readonly world: ProtocolWorld,
    readonly name: string,
    private readonly pace: Pace,
  ) {
    this.begin();
  }

  private begin(): void {
    const { world } = this;
    this.restarts++;
    this.id = `b${++world.ids}`;
    this.borrower = newBorrower(this.name, world.now, world.queue && this.pace.credit);
    this.arm();
  }

  /** The process dies. */
  die(): void {
    this.isGone = true;
    this.id = "";
    this.world.members.delete(this);
  }

  step(event: BorrowerEvent): void {
    if (this.isGone) return;
    const { world, id, borrower } = this;
    for (const effect of borrowerStep(borrower, event, world.now, TIMERS)) {
      switch (effect.kind) {
        case "send":
          this.send({ id, node: this.name }, effect.leader, effect.message);
          break;
        case "granted":
          world.ledger.granted(effect.stream, effect.epoch, id);
          this.open.set(effect.stream, {
            epoch: effect.epoch,
            generation: effect.position.generation,
            busyUntilMs: 0,
            delivered: effect.position.seq,
            processed: effect.position.seq,
            isDraining: false,
          });
          break;
        case "revoking":
          this.open.get(effect.stream)!.isDraining = true;
          this.report(effect.stream);
          break;
        case "revoked":
          this.open.delete(effect.stream);
          break;
        case "acked":
          world.ledger.confirmed(nameOf(effect.stream, effect.position), effect.position.seq);
          break;
        case "leased":
          this.work(effect, effect.untilMs);
          break;
        case "settled":
          if (!effect.isGone && this.acked.delete(effect.lease))
            world.ledger.settled(nameOf(effect.stream, effect.position), effect.position.seq);
          break;
        case "destroyed":
          this.acked.clear();
          if (effect.isRestart) this.begin();
          else this.leave();
      }
    }
    this.deliver();
    this.arm();
  }

  /** Of a queue: processes one message, and acknowledges or refuses it. */
  private work(leased: Leased, untilMs: number): void {
    const { world, pace, id } = this;
    const { stream, position, lease } = leased;
    const { random, ledger } = world;
    // A session reads the message first, which takes a moment.
    world.after(random.between(0, 5), () => {
      if (this.isGone || this.id !== id) return;
      const isLate = world.now >= untilMs || world.now >= holdsUntilMs(this.borrower, TIMERS);
      if (isLate) {
        this.step({ type: "on_settle", settlements: [{ stream, position, lease, verdict: "nack" }] });
        return;
      }
      ledger.leased(nameOf(stream, position), position.seq, lease);
      const ms = random.between(0, pace.processMs) * (random.chance(pace.stalls) ? 10 : 1);
      world.after(ms, () => {
        if (this.isGone || this.id !== id) return;
        const isRefused = random.chance(pace.refusals);
        const verdict = isRefused ? "nack" : "ack";
        if (!isRefused) {
          ledger.processed(nameOf(stream, position), position.seq);
          this.acked.add(lease);
        }
        const delayMs = isRefused ? random.pick([0, 50, 500]) : undefined;
        this.step({ type: "on_settle", settlements: [{ stream, position, lease, verdict, delayMs }] });
      });
    });
  }

  private leave(): void {
    this.isUnsubscribed = true;
    this.die();
  }

  private send(from: BorrowerAddress, leader: LeaderAddress | undefined, message: ToLeader): void {
    const { world } = this;
    const leaders = [...world.leaders].filter(({ term }) => term === leader?.term);
    if (leader === undefined) world.carry(message, () => world.wanted(from, message));
    for (const one of leaders) world.carry(message, () => one.told(from, message));
  }

  deliver(): void {
    const { world, borrower, pace } = this;
    if (this.isGone || world.now >= holdsUntilMs(borrower, TIMERS)) return;
    let inFlight = 0;
    for (const { delivered, processed } of this.open.values()) inFlight += delivered - processed;
    for (const [path, open] of this.open) {
      const log = world.logs.get(path);
      if (log === undefined) continue;
      if (log.generation !== open.generation) Object.assign(open, { ...log, delivered: 0, processed: 0 });
      while (!open.isDraining && open.delivered < log.length && inFlight < pace.credit) {
        inFlight++;
        this.process(path, open, ++open.delivered);
      }
    }
  }

  private process(path: string, open: Open, seq: number): void {
    const { world, pace } = this;
    const { generation } = open;
    world.ledger.delivered(nameOf(path, open), seq, open.epoch);
    const ms = world.random.between(0, pace.processMs) * (world.random.chance(pace.stalls) ? 10 : 1);
    open.busyUntilMs = Math.max(open.busyUntilMs, world.now) + ms;
    world.after(open.busyUntilMs - world.now, () => {
      if (this.isGone || this.open.get(path) !== open || open.generation !== generation) return;
      open.processed = seq;
      world.ledger.processed(nameOf(path, open), seq);
      this.report(path);
      this.deliver();
    });
  }

  private report(path: string): void {
    const { epoch, generation, delivered, processed, isDraining } = this.open.get(path)!;
    const position = { generation, seq: processed };
    const isFinal = isDraining && delivered === processed;
    this.world.after(0, () => {
      this.step({ type: "on_stream_progress", progress: [{ stream: path, epoch, position, isFinal }] });
    });
  }

  private arm(): void {
    const { world, borrower } = this;
    const dueMs = borrowerDueMs(borrower, TIMERS);
    if (this.isGone || dueMs >= this.timerAtMs) return;
    this.timerAtMs = dueMs;
    world.after(dueMs - world.now, () => {
      this.timerAtMs = Number.POSITIVE_INFINITY;
      this.step({ type: "tick" });
      this.arm();
    });
  }
}
