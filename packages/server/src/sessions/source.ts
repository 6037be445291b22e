/**
 * A stream that sessions follow. It takes its log piece by piece, copies each piece to every subscriber, and moves the
 * cursor. One round runs at a time; later appends go into the next. `Fanout` keeps one per stream while it has work.
 *
 * Invariants: rounds follow the log, whether or not a publish waits. The cursor moves only past messages that every
 * subscriber has, or is stored to lag behind. If no subscriber can be reached, it is an outage: no laggard is stored
 * and the cursor stays.
 */
import type { Position } from "@sluice/protocol";
import { backoffMs } from "../core/backoff.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { isMemoryTruth } from "../engine/other-nodes.ts";
import type { Streams } from "../streams/service.ts";
import { Breaker } from "./breaker.ts";
import { Copy } from "./copy.ts";
import type { FanoutLimits } from "./defaults.ts";
import { type Deliveries, Delivery, type FanoutMeter, type Member, type Missed } from "./delivery.ts";
import type { Events } from "./events.ts";
import { type LaggardSource, Laggards } from "./laggards.ts";
import { type FanoutQueue, messagesOf } from "./queue.ts";
import type { RemoveSubscriber } from "./registry-rules.ts";
import { Roster } from "./roster.ts";
import { SourceLog } from "./source-log.ts";
import { isBefore, isVersion, type Registry } from "./state.ts";
import type { StreamPort } from "./stream-port.ts";
import { NO_COPIES, type Tally, Waiters } from "./waiters.ts";

export interface SourceParts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly streams: Streams;
  readonly port: StreamPort;
  readonly world: World;
  readonly limits: FanoutLimits;
  readonly meter: FanoutMeter;
  readonly queue: FanoutQueue;
  readonly events: Events;
  readonly report: (what: string, fault: unknown) => void;
  /** Ends the subscriptions of a stream that is gone. */
  readonly dissolve: (source: Source, name: string) => Promise<void>;
  /** Its rounds have ended for now; it may be evicted. */
  readonly rested: (source: Source) => void;
}

export class Source implements LaggardSource {
  readonly roster: Roster;
  readonly breaker: Breaker;
  readonly log: SourceLog;
  private readonly laggards: Laggards;
  private readonly waiters = new Waiters();
  private isOwed = false;
  private isRunning = false;
  private isStopped = false;
  private outages = 0;
  /** Callers that use this source now; it is not evicted meanwhile. */
  uses = 0;
  /** The subscribers that `Fanout` counted of this source. */
  counted = 0;
  private joins = 0;
  /** When the hold was last released; undefined if the stream may be held. */
  private releasedAt: number | undefined;
  private cancelRetry: Cancel | undefined;
  private cancelTidy: Cancel | undefined;

  constructor(
    private readonly parts: SourceParts,
    readonly project: string,
    readonly stream: string,
  ) {
    this.roster = new Roster(parts.engine, parts.keepers, parts.limits, parts.world, project, stream);
    this.log = new SourceLog(parts, this.roster, project, stream, () => this.holdAgain());
    this.breaker = new Breaker(parts.limits);
    this.laggards = new Laggards(parts, this);
  }

  /** No round, no waiting publish, no laggard: it can be evicted and created again when needed. */
  get isIdle(): boolean {
    const isWaiting = this.cancelRetry !== undefined || this.cancelTidy !== undefined || this.log.isHolding;
    return this.uses === 0 && !this.isRunning && !isWaiting && this.waiters.size === 0 && this.laggards.size === 0;
  }

  get lags(): number {
    return this.laggards.size;
  }

  /** A message was appended, or may have been. */
  wake(): void {
    this.isOwed = true;
    if (this.isRunning || this.isStopped) return;
    this.isRunning = true;
    this.cancelRetry?.();
    this.cancelRetry = undefined;
    void this.run();
  }

  /** Resolves at the end of the round that takes the log at least up to `through`. */
  copied(through: Position): Promise<Tally> {
    const { registry } = this.roster;
    if (registry === undefined || this.isStopped) return Promise.resolve(NO_COPIES);
    const told = this.waiters.add(through);
    this.wake();
    return told;
  }

  stop(): void {
    this.isStopped = true;
    this.cancelRetry?.();
    this.cancelTidy?.();
    this.laggards.stop();
    this.log.stop();
    this.waiters.answerAll(NO_COPIES);
  }

  /** Lets a laggard catch up. */
  catchUp(session: string): void {
    this.laggards.catchUp(session);
  }

  /** A session that may have borrowed has left. Payloads that no session borrows any more are trimmed after a while. */
  tidySoon(): void {
    if (this.isStopped || this.cancelTidy !== undefined) return;
    this.cancelTidy = this.parts.world.after(this.parts.limits.checkMs, () => {
      this.cancelTidy = undefined;
      this.roster.tidy().catch((fault) => this.report(`trimming ${this.project}/${this.stream} failed`, fault));
    });
  }

  private async run(): Promise<void> {
    try {
      while (this.isOwed && !this.isStopped) {
        this.isOwed = false;
        await this.round();
        if (this.waiters.size > 0) this.isOwed = true;
      }
    } catch (fault) {
      this.report(`fanning out ${this.project}/${this.stream} failed; it is retried`, fault);
      this.retryLater();
    }
    this.isRunning = false;
    if (this.isOwed && !this.isStopped && this.cancelRetry === undefined) this.wake();
    this.parts.rested(this);
  }

  private retryLater(): void {
    const { retryMs, maxRetryMs } = this.parts.limits;
    const count = this.roster.members.size;
    this.waiters.answerAll({ count, successes: 0, failures: count, failed: count });
    if (this.isStopped) return;
    const ms = backoffMs(++this.outages, { firstMs: retryMs, maxMs: maxRetryMs });
    this.cancelRetry ??= this.parts.world.after(ms, () => {
      this.cancelRetry = undefined;
      this.wake();
    });
  }

  private async round(): Promise<void> {
    // The messages that these publishes wait for were durable before this round reads the log.
    const waiting = this.waiters.all;
    const registry = await this.roster.look();
    if (registry === undefined) {
      this.waiters.answerAll(NO_COPIES);
      return this.releaseHold();
    }
    for (const session of this.roster.lagging.keys()) this.laggards.catchUp(session);
    const piece = await this.log.after(registry.cursor, registry.name, registry.seq + 1);
    if (piece === "gone") {
      this.waiters.answerAll(NO_COPIES);
      return this.parts.dissolve(this, registry.name);
    }
    if (piece === "nothing") {
      // An earlier round or another node has copied it, or a failover lost it.
      const { members, lagging } = this.roster;
      const successes = members.size - lagging.size;
      return this.waiters.answerLate(waiting, { count: members.size, successes, failures: lagging.size, failed: 0 });
    }
    await this.copyToAll(registry, piece);
  }

  private async copyToAll(registry: Registry, copy: Copy): Promise<void> {
    const { name } = registry;
    const startedAt = this.parts.world.monotonicMs();
    const served: Member[] = [];
    const deliveries: Deliveries[] = [];
    const passedOver = this.roster.lagging.size;
    for (;;) {
      const now = this.roster.registry;
      if (now?.version.generation !== registry.version.generation || now.name !== name) {
        // The registry now belongs to another stream, and so do its subscribers.
        this.isOwed = true;
        return;
      }
      const { version } = now;
      const members = this.unserved(served);
      // Sessions that subscribed before the payload was stored may borrow it. Later ones get whole copies.
      const sent = deliveries.length === 0 ? await this.log.shared(copy, name) : copy;
      const delivery = this.deliver(sent, members, this.mode() === "queued");
      deliveries.push(delivery);
      await delivery.answeredOrSlow;
      if (!deliveries.some(hasReached)) {
        // An outage or slow sessions? Known when one answers, the subscribers change, or all have timed out.
        const allEnded = Promise.all(deliveries.map(({ all }) => all));
        await Promise.race([allEnded, this.roster.nextChange(), ...deliveries.map(({ reached }) => reached)]);
        if (!this.isStopped && !isVersion(this.roster.registry?.version, version)) {
          await this.roster.look();
          continue;
        }
      }
      if (this.isStopped) return;
      const missed = deliveries.flatMap((delivery) => delivery.missed);
      const slow = deliveries.flatMap(({ pending }) => pending);
      const laggards = laggardsOf(missed, slow, copy.prev);
      if (laggards.length > 0 && !deliveries.some(hasReached)) {
        void this.settle(copy, deliveries, passedOver, startedAt);
        await this.removeSubscribers(staleOf(missed));
        return this.retryLater();
      }
      const outcome = await this.roster.advance({ name, version, to: copy.through, laggards });
      if (outcome.kind === "changed") {
        await this.lookAgain(version);
        continue;
      }
      this.outages = 0;
      for (const { session } of laggards) this.laggards.catchUp(session, this.parts.limits.retryMs);
      if (outcome.kind === "advanced") {
        if (this.joins === 0) await this.hold(outcome.registry);
        if (isBefore(outcome.registry.cursor, copy.through)) this.isOwed = true;
      }
      await this.removeSubscribers(staleOf(missed));
      // Waiting publishes are answered when the slow sessions have answered or timed out; the next round does not wait
      // for that.
      void this.settle(copy, deliveries, passedOver, startedAt);
      if (copy.hasMore) this.isOwed = true;
      return;
    }
  }

  /** Subscribers that this round has not served yet. */
  private unserved(served: Member[]): readonly Member[] {
    const { members, lagging } = this.roster;
    const before = new Map(served.map((member) => [member.session, member]));
    const found: Member[] = [];
    for (const member of members.values()) {
      if (lagging.has(member.session) || isSame(before.get(member.session), member)) continue;
      served.push(member);
      found.push(member);
    }
    return found;
  }

  private async lookAgain(version: Position): Promise<void> {
    if (isVersion(this.roster.registry?.version, version)) this.roster.doubt();
    await this.roster.look();
  }

  private deliver(copy: Copy, members: readonly Member[], isQueued: boolean): Deliveries {
    const { queue, limits } = this.parts;
    const { project: projectId, stream: streamId } = this;
    if (!isQueued) return new Delivery(this.parts, projectId, copy, members, limits.batch);
    this.parts.events.tell("fanout_queued", { stream: streamId, count: members.length });
    return queue.send(messagesOf({ projectId, streamId, copy }, members, limits.queueBatch));
  }

  /** How copies are made now. */
  mode(): "inline" | "queued" | "skipped" {
    const { queue, queueThreshold, maxInline } = this.parts.limits;
    const count = this.roster.members.size;
    if (queue) return count > queueThreshold ? "queued" : "inline";
    return count > maxInline ? "skipped" : "inline";
  }

  private async settle(
    copy: Copy,
    deliveries: readonly Deliveries[],
    passedOver: number,
    startedAt: number,
  ): Promise<void> {
    const through = this.waiters.take(copy.through);
    await Promise.all(deliveries.map(({ all }) => all));
    const missed = deliveries.flatMap((delivery) => delivery.missed);
    const countOf = (...kinds: readonly string[]) => missed.filter(([, { kind }]) => kinds.includes(kind)).length;
    const successes = deliveries.reduce((sum, { copied }) => sum + copied, 0);
    const tally: Tally = {
      count: passedOver + successes + missed.length,
      successes,
      failures: passedOver + missed.length - countOf("stale"),
      failed: countOf("failed", "timeout"),
    };
    this.parts.events.tell("fanout", {
      stream: this.stream,
      count: tally.count,
      latencyMs: this.parts.world.monotonicMs() - startedAt,
      values: [tally.successes, tally.failures],
    });
    this.waiters.settle(through, { after: copy.prev, through: copy.through, tally });
  }

  /** Removes subscribers that no longer exist. */
  async removeSubscribers(members: readonly RemoveSubscriber[]): Promise<void> {
    if (members.length === 0) return;
    const outcome = await this.roster.remove(members);
    if (outcome.kind === "emptied") await this.releaseHold();
    else this.tidySoon();
  }

  private async hold(registry: Registry): Promise<void> {
    this.releasedAt = undefined;
    await this.log.hold(registry);
  }

  /** Sessions may have subscribed, or begun to, since the move was put off. */
  private async holdAgain(): Promise<void> {
    const registry = await this.roster.look();
    if (registry === undefined || this.isStopped) return;
    if (this.joins > 0) this.log.holdLater();
    else await this.hold(registry);
  }

  /** Without subscribers nothing needs to be held, unless a session is about to subscribe. */
  private async releaseHold(): Promise<void> {
    if (this.joins > 0 || this.hasReleasedHold()) return;
    this.releasedAt = this.parts.world.monotonicMs();
    try {
      await this.log.releaseHold();
    } catch (fault) {
      this.releasedAt = undefined;
      throw fault;
    }
  }

  /** Where several nodes serve, another may have taken the hold since, so a release is trusted only for a while. */
  private hasReleasedHold(): boolean {
    const { engine, world, limits } = this.parts;
    if (this.releasedAt === undefined) return false;
    return isMemoryTruth(engine) || world.monotonicMs() - this.releasedAt < limits.checkMs;
  }

  /** While a session subscribes, the hold of the stream stays as it is. */
  async joining<T>(join: () => Promise<T>): Promise<T> {
    this.joins++;
    this.releasedAt = undefined;
    try {
      return await join();
    } finally {
      this.joins--;
    }
  }

  async lagging(session: string): Promise<{ readonly member: Member; readonly at: Position } | undefined> {
    await this.roster.look();
    const member = this.roster.members.get(session);
    const at = this.roster.lagging.get(session);
    return member && at && { member, at };
  }

  async copyAfter(at: Position): Promise<Copy | undefined> {
    const { registry } = this.roster;
    if (registry === undefined) return undefined;
    const piece = await this.log.after(at, registry.name, registry.seq);
    if (piece instanceof Copy) return piece;
    // The log ended at or after the cursor when it was read.
    const isBehind = piece === "nothing" && isBefore(at, registry.cursor);
    return isBehind ? Copy.ofNothing(this.stream, at, registry.cursor, registry.seq) : undefined;
  }

  async noteProgress(member: Member, at: Position): Promise<boolean> {
    const outcome = await this.roster.caughtUp(member, at);
    if (outcome.kind === "joined") this.wake();
    if (outcome.kind === "gone") await this.roster.look();
    return outcome.kind !== "behind";
  }

  report(what: string, fault: unknown): void {
    if (!this.isStopped) this.parts.report(what, fault);
  }
}

/** Whether any session has answered. */
function hasReached({ copied, missed }: Deliveries): boolean {
  return copied > 0 || missed.some(([, { kind }]) => kind === "lagging");
}

/** Sessions that exist and have no copy, with their positions. */
function laggardsOf(missed: Missed, slow: readonly Member[], prev: Position) {
  const found = missed.flatMap(([member, result]) =>
    result.kind === "stale" ? [] : [{ ...member, at: result.kind === "lagging" ? result.at : prev }],
  );
  return [...found, ...slow.map((member) => ({ ...member, at: prev }))];
}

function staleOf(missed: Missed): readonly RemoveSubscriber[] {
  return missed.flatMap(([member, result]) =>
    result.kind === "stale" ? [{ ...member, keepsBorrowing: result.borrows }] : [],
  );
}

function isSame(a: Member | undefined, b: Member): boolean {
  return a?.incarnation === b.incarnation && a.epoch === b.epoch;
}
