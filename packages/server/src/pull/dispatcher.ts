/**
 * The dispatcher of one subscription, for one term of ownership: it leases messages to the streams that are open, takes their
 * answers, and stores acknowledgements under its ownership. The registry of a node starts one when it gains a subscription.
 *
 * Invariants: it acts only while its term is held. It reads the subscription's rows after it has begun its term, so that no commit
 * of an earlier dispatcher can follow. An acknowledgement is confirmed when it is durable. One timer is set at a time. A seek
 * replaces all logs at once, so that no lease survives it.
 */
import type { Cancel } from "../core/world.ts";
import type { Term } from "../engine/term.ts";
import type { LeaseCore } from "../leases/lease-core.ts";
import { TimerWheel } from "../leases/timer-wheel.ts";
import { type AckId, parseAckId } from "./ack-id.ts";
import type { AckOutcome, PullStream, StreamEnd, StreamEvents, StreamOptions } from "./contract.ts";
import { DispatcherStore, type StoreParts } from "./dispatcher-store.ts";
import { type Giving, give } from "./giving.ts";
import { type Holder, Holders } from "./holders.ts";
import { LogReader, type ReaderParts } from "./log-reader.ts";
import { checkAckDeadline } from "./options.ts";
import type { PulledLog } from "./pulled-log.ts";
import type { PullerMeta, TopicRef } from "./state.ts";

export interface DispatcherParts extends StoreParts, ReaderParts {
  readonly limits: StoreParts["limits"] & ReaderParts["limits"] & Giving["limits"] & { readonly tickMs: number };
}

/** Leases of one term. Terms and lease numbers together stay below 2^53. */
const LEASES_PER_TERM = 2 ** 32;
/** Messages of a log that may expire in one turn of the event loop. */
const EXPIRIES = 2_000;
/** The farthest that the timer looks ahead. */
const AHEAD_MS = 1_000;

export class Dispatcher {
  /** Empty until the rows are read, and while they are read again after a seek. */
  logs: readonly PulledLog[] = [];
  readonly holders = new Holders();
  private readonly wheel: TimerWheel<LeaseCore>;
  private readonly logOf = new Map<LeaseCore, PulledLog>();
  private readonly store: DispatcherStore;
  private readonly reader: LogReader;
  private meta!: PullerMeta;
  /** Messages whose time has come, for this turn and the next ones. */
  private readonly overdue: (readonly [core: LeaseCore, seqs: readonly number[]])[] = [];
  private nextLease = 0;
  private turn = 0;
  private isOver = false;
  private isGiving = false;
  /** The rows are being read, so that no stream can tell whether messages are ready. */
  private isLoading = true;
  private timer: Cancel | undefined;
  private timerAtMs = Number.POSITIVE_INFINITY;

  constructor(
    private readonly parts: DispatcherParts,
    private readonly term: Term,
    /** Called once, when the dispatcher ends by itself. */
    private readonly end: () => void,
  ) {
    this.wheel = new TimerWheel(parts.limits.tickMs, this.now);
    this.store = new DispatcherStore(parts, term, {
      stored: () => this.reader.hold(this.meta),
      changed: (meta) => this.changed(meta),
      failed: () => this.leave("moved"),
      isUsed: () => this.isWanted,
    });
    this.reader = new LogReader(parts, term.entity, {
      progress: () => this.giveSoon(),
      topicGone: () => this.topicGone(),
      changed: () => this.store.mark(),
      isServing: () => this.isServing,
    });
  }

  private get now(): number {
    // Delays of messages are stored as dates.
    return this.parts.engine.now();
  }

  get isServing(): boolean {
    return !this.isOver && this.term.isHeld();
  }

  get topic(): TopicRef {
    return this.meta.topic;
  }

  get isDetached(): boolean {
    return this.meta.isDetached;
  }

  /** Whether a client may still need it. */
  get isWanted(): boolean {
    return this.holders.size > 0 || this.outstanding > 0;
  }

  get outstanding(): number {
    let count = 0;
    for (const { core } of this.logs) count += core.outstanding;
    return count;
  }

  /** Resolves with false if there is no such subscription. */
  async begin(): Promise<boolean> {
    const meta = await this.store.begin();
    if (meta === undefined) return false;
    this.nextLease = meta.term * LEASES_PER_TERM;
    await this.load(meta);
    this.store.checkLater();
    return true;
  }

  private async load(meta: PullerMeta): Promise<void> {
    this.isLoading = true;
    this.logs = [];
    this.meta = meta;
    const logs = await this.store.load(meta, {
      wheel: this.wheel,
      nextNumber: () => this.nextLease++,
      options: () => this.meta.options,
      freed: (lease, bytes) => {
        this.holders.freed(lease, bytes);
        this.giveSoon();
      },
    });
    if (this.meta.edition !== meta.edition) return;
    this.isLoading = false;
    this.logs = logs;
    this.store.logs = logs;
    this.reader.follow(meta.topic, logs);
    this.logOf.clear();
    for (const log of logs) this.logOf.set(log.core, log);
    this.reader.hold(meta);
    if (meta.isTopicDeleted) this.topicGone();
    else this.giveSoon();
  }

  // Streams.

  stream(asked: StreamOptions, events: StreamEvents): PullStream {
    const holder = this.holders.open(asked, events);
    if (this.meta.isTopicDeleted) events.notice?.("topic-deleted");
    this.giveSoon();
    return {
      pause: () => {
        holder.isPaused = true;
      },
      resume: () => {
        holder.isPaused = false;
        this.giveSoon();
      },
      setAckDeadline: (ms) => {
        checkAckDeadline(ms);
        holder.leaseMs = ms;
      },
      setLimits: (limits) => {
        holder.flow.set(limits);
        this.giveSoon();
      },
      close: () => this.close(holder),
    };
  }

  /** What is outstanding stays leased. */
  private close(holder: Holder): void {
    this.holders.close(holder);
    if (!this.holders.hasOpen) this.reader.rest();
  }

  // Answers of clients.

  async ack(ids: readonly string[]): Promise<AckOutcome[]> {
    const outcomes = ids.map((text) =>
      this.answer(text, (log, id) => log.ack(id, id.lease >= this.meta.term * LEASES_PER_TERM, this.now)),
    );
    return this.confirmed(outcomes);
  }

  async nack(ids: readonly string[], delayMs: number | undefined): Promise<AckOutcome[]> {
    const outcomes = ids.map((text) => this.answer(text, (log, id) => log.nack(id, this.now, delayMs)));
    return this.confirmed(outcomes);
  }

  extend(ids: readonly string[], leaseMs: number): AckOutcome[] {
    const outcomes = ids.map((text) => this.answer(text, (log, id) => log.extend(id, this.now, leaseMs)));
    this.arm();
    return outcomes;
  }

  /** Takes leases back, as if they had never been, because no client got their messages. */
  withdraw(ids: readonly string[]): void {
    for (const text of ids) {
      this.answer(text, (log, { seq, lease }) => {
        if (!log.core.isLeased(seq, lease)) return "gone";
        log.withdraw(seq, this.now);
        return "done";
      });
    }
    this.giveSoon();
  }

  private answer(text: string, apply: (log: PulledLog, id: AckId) => "done" | "gone"): AckOutcome {
    const id = parseAckId(text);
    const log = id && this.logs[id.log];
    if (id === undefined || log === undefined || id.edition !== this.meta.edition) return "gone";
    return apply(log, id);
  }

  /** Waits until what is done is durable. */
  private async confirmed(outcomes: AckOutcome[]): Promise<AckOutcome[]> {
    this.giveSoon();
    if (!outcomes.includes("done")) return outcomes;
    const stored = await this.store.durable();
    return stored === "done" ? outcomes : outcomes.map((outcome) => (outcome === "done" ? stored : outcome));
  }

  // Giving.

  giveSoon(): void {
    if (this.isGiving || this.isOver) return;
    this.isGiving = true;
    this.parts.world.soon(() => {
      this.isGiving = false;
      if (this.isServing && !this.isLoading) this.giveNow();
    });
  }

  private giveNow(): void {
    const { now } = this;
    this.endOverdue(now);
    this.buryDead();
    const { isPaused, ackDeadlineMs } = this.meta.options;
    if (!isPaused && !this.meta.isTopicDeleted && !this.meta.isDetached) {
      const { limits } = this.parts;
      const { logs, turn, reader } = this;
      const { edition, topic } = this.meta;
      const holders = this.holders.all;
      const isSharded = topic.shards !== undefined;
      const given = give({ limits, logs, holders, turn, now, ackDeadlineMs, edition, isSharded, reader });
      this.turn += given.leased;
      if (given.isCut) this.giveSoon();
      else if (given.isHungry && !this.reader.readOn()) this.tellIdle();
    } else this.tellIdle();
    if (this.logs.some(({ isChanged }) => isChanged)) this.store.mark();
    this.arm();
  }

  /** Ends what has run out, a bounded number in one turn, because any number of leases may end together. */
  private endOverdue(now: number): void {
    for (const [core, seqs] of this.wheel.take(now)) {
      for (let at = 0; at < seqs.length; at += EXPIRIES) this.overdue.push([core, seqs.slice(at, at + EXPIRIES)]);
    }
    for (let ended = 0; ended < EXPIRIES; ) {
      const next = this.overdue.shift();
      if (next === undefined) return;
      const [core, seqs] = next;
      this.logOf.get(core)?.due(seqs, now);
      ended += seqs.length;
    }
    if (this.overdue.length > 0) this.giveSoon();
  }

  /** Nothing is ready, and nothing is being read. */
  private tellIdle(): void {
    for (const { events, isClosed, isFetching, flow } of this.holders.all) {
      if (!isClosed && !isFetching && flow.hasRoom) events.idle?.();
    }
  }

  private buryDead(): void {
    for (const log of this.logs) {
      for (const [seq, why] of log.dead()) this.reader.bury(log, seq, why, () => this.meta.options);
    }
  }

  private arm(): void {
    if (!this.isServing) return;
    const nextMs = this.wheel.nextMs(AHEAD_MS);
    if (nextMs === undefined || nextMs >= this.timerAtMs) return;
    this.timer?.();
    this.timerAtMs = nextMs;
    this.timer = this.parts.world.after(Math.max(0, nextMs - this.now), () => {
      this.timerAtMs = Number.POSITIVE_INFINITY;
      this.giveSoon();
    });
  }

  // Changes from outside.

  /** The subscription was changed, here or on another node; undefined if it was deleted. */
  changed(meta: PullerMeta | undefined): void {
    if (!this.isServing) return;
    if (meta === undefined || meta.isDetached) {
      this.leave(meta === undefined ? "subscription-deleted" : "detached");
      return;
    }
    if (meta.revision <= this.meta.revision) return;
    if (meta.edition !== this.meta.edition) {
      for (const log of this.logs) log.rest(this.now);
      this.store.abandon();
      this.load(meta).catch((fault) => {
        this.parts.report(`reading ${this.term.entity.key} after a seek failed; its clients connect again`, fault);
        this.leave("moved");
      });
      return;
    }
    const wasDeleted = this.meta.isTopicDeleted;
    this.meta = meta;
    if (meta.isTopicDeleted && !wasDeleted) this.topicGone();
    this.giveSoon();
  }

  private topicGone(): void {
    if (!this.meta.isTopicDeleted) {
      this.meta = { ...this.meta, isTopicDeleted: true };
      this.store.topicGone();
    }
    this.reader.rest();
    for (const { events, isClosed } of this.holders.all) if (!isClosed) events.notice?.("topic-deleted");
  }

  private leave(why: StreamEnd): void {
    if (this.isOver) return;
    this.stop(why);
    this.end();
  }

  /** Ends all streams. What is not durable by now is answered as failed. */
  stop(why: StreamEnd): void {
    if (this.isOver) return;
    this.isOver = true;
    this.store.stop();
    this.reader.stop();
    this.timer?.();
    this.endStreams(why);
    this.holders.clear();
  }

  endStreams(why: StreamEnd): void {
    for (const holder of this.holders.all) {
      if (holder.isClosed) continue;
      this.close(holder);
      holder.events.ended(why);
    }
  }
}
