/**
 * A stream that sessions follow: takes its log piece by piece, copies each piece to everybody, and notes how far that has come. One
 * round at a time; what is appended meanwhile goes into the next. `Fanout` keeps one per stream while there is something to do.
 *
 * What must stay true: rounds follow the log, whoever appended and whether or not somebody waits; the cursor moves only past what
 * everybody has or is noted to lag behind. When nobody at all can be copied to, that is an outage, not laggards: the cursor stays.
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
import type { CoreService } from "./core-service.ts";
import { type Deliveries, Delivery, type FanoutMeter, type Member, type Missed } from "./delivery.ts";
import type { Events } from "./events.ts";
import { type LaggardSource, Laggards } from "./laggards.ts";
import type { FanoutLimits } from "./limits.ts";
import { type FanoutQueue, messagesOf } from "./queue.ts";
import type { RemoveSubscriber } from "./registry-rules.ts";
import { Roster } from "./roster.ts";
import { SourceLog } from "./source-log.ts";
import { isBefore, isVersion, type Registry } from "./state.ts";
import { NOBODY, type Tally, Waiters } from "./waiters.ts";

export interface SourceParts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly streams: Streams;
  readonly core: CoreService;
  readonly world: World;
  readonly limits: FanoutLimits;
  readonly meter: FanoutMeter;
  readonly queue: FanoutQueue;
  readonly events: Events;
  readonly report: (what: string, fault: unknown) => void;
  /** The stream has gone, and its subscriptions go with it. */
  readonly dissolve: (source: Source, name: string) => Promise<void>;
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
  /** Those who use it from outside, and must find it again. */
  uses = 0;
  private joins = 0;
  /** When it was seen to that nothing is kept; undefined when something may be. */
  private letGoAt: number | undefined;
  private cancelRetry: Cancel | undefined;
  private cancelTidy: Cancel | undefined;

  constructor(
    private readonly parts: SourceParts,
    readonly project: string,
    readonly stream: string,
  ) {
    this.roster = new Roster(parts.engine, parts.keepers, parts.limits, project, stream);
    this.log = new SourceLog(parts.streams, this.roster, parts.limits, project, stream);
    this.breaker = new Breaker(parts.limits);
    this.laggards = new Laggards(parts, this);
  }

  /** Nothing is under way, nobody waits, nobody lags: it can be made again when needed. */
  get isIdle(): boolean {
    const isWaiting = this.cancelRetry !== undefined || this.cancelTidy !== undefined;
    return this.uses === 0 && !this.isRunning && !isWaiting && this.waiters.size === 0 && this.laggards.size === 0;
  }

  get lags(): number {
    return this.laggards.size;
  }

  /** Something was appended, or may have been. */
  wake(): void {
    this.isOwed = true;
    if (this.isRunning || this.isStopped) return;
    this.isRunning = true;
    this.cancelRetry?.();
    this.cancelRetry = undefined;
    void this.run();
  }

  /** Resolves when the round is over that takes the log at least up to there. */
  copied(through: Position): Promise<Tally> {
    const { registry } = this.roster;
    if (registry === undefined || this.isStopped) return Promise.resolve(NOBODY);
    const told = this.waiters.add(through);
    this.wake();
    return told;
  }

  stop(): void {
    this.isStopped = true;
    this.cancelRetry?.();
    this.cancelTidy?.();
    this.laggards.stop();
    this.waiters.answerAll(NOBODY);
  }

  /** Brings a session up that lags. */
  see(session: string): void {
    this.laggards.see(session);
  }

  /** Somebody who may have borrowed has gone; what nobody borrows any more goes too, in a while. */
  tidySoon(): void {
    if (this.isStopped || this.cancelTidy !== undefined) return;
    this.cancelTidy = this.parts.world.after(this.parts.limits.checkMs, () => {
      this.cancelTidy = undefined;
      this.roster.tidy().catch((fault) => this.report(`tidying up ${this.project}/${this.stream} failed`, fault));
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
      this.report(`fanning out ${this.project}/${this.stream} failed`, fault);
      this.retryLater();
    }
    this.isRunning = false;
    if (this.isOwed && !this.isStopped && this.cancelRetry === undefined) this.wake();
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
    // What they wait for was durable before this round looks at the log.
    const waiting = this.waiters.all;
    const registry = await this.roster.look();
    if (registry === undefined) {
      this.waiters.answerAll(NOBODY);
      return this.letGo();
    }
    for (const session of this.roster.lagging.keys()) this.laggards.see(session);
    const piece = await this.log.after(registry.cursor, registry.name, registry.seq + 1);
    if (piece === "gone") {
      this.waiters.answerAll(NOBODY);
      return this.parts.dissolve(this, registry.name);
    }
    if (piece === "nothing") {
      // A round was faster than who asks about it, another node was, or a failover took it.
      const { members, lagging } = this.roster;
      const successes = members.size - lagging.size;
      return this.waiters.answerLate(waiting, { count: members.size, successes, failures: lagging.size, failed: 0 });
    }
    await this.copyToAll(registry, piece);
  }

  private async copyToAll(registry: Registry, copy: Copy): Promise<void> {
    const { name } = registry;
    const startedAt = this.parts.world.now();
    const served: Member[] = [];
    const deliveries: Deliveries[] = [];
    const passedOver = this.roster.lagging.size;
    for (;;) {
      const now = this.roster.registry;
      if (now?.version.generation !== registry.version.generation || now.name !== name) {
        // It is another stream's by now, and so are those who subscribe.
        this.isOwed = true;
        return;
      }
      const { version } = now;
      const members = this.unserved(served);
      // Those may borrow who subscribed before there was something to borrow. Whoever came since gets whole copies.
      const sent = deliveries.length === 0 ? await this.log.shared(copy, name) : copy;
      const delivery = this.deliver(sent, members, this.mode() === "queued");
      deliveries.push(delivery);
      await delivery.mostly;
      if (!deliveries.some(hasReached)) {
        // Whether it is an outage or they are merely slow is known when one answers, somebody else comes, or all had their time.
        const everybody = Promise.all(deliveries.map(({ all }) => all));
        await Promise.race([everybody, this.roster.nextChange(), ...deliveries.map(({ reached }) => reached)]);
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
        await this.gone(staleOf(missed));
        return this.retryLater();
      }
      const outcome = await this.roster.advance({ name, version, to: copy.through, laggards });
      if (outcome.kind === "changed") {
        await this.lookAgain(version);
        continue;
      }
      this.outages = 0;
      for (const { session } of laggards) this.laggards.see(session, this.parts.limits.retryMs);
      if (outcome.kind === "advanced") {
        if (this.joins === 0) await this.hold(outcome.registry);
        if (isBefore(outcome.registry.cursor, copy.through)) this.isOwed = true;
      }
      await this.gone(staleOf(missed));
      // Whoever waits is told when the slow ones are known too, or have had their time; the next round does not wait for that.
      void this.settle(copy, deliveries, passedOver, startedAt);
      if (copy.hasMore) this.isOwed = true;
      return;
    }
  }

  /** Those who are to be served in this round and have not been. */
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

  /** Which way copies go now. */
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
      latencyMs: this.parts.world.now() - startedAt,
      values: [tally.successes, tally.failures],
    });
    this.waiters.settle(through, { after: copy.prev, through: copy.through, tally });
  }

  /** Takes out those that are not there any more. */
  async gone(members: readonly RemoveSubscriber[]): Promise<void> {
    if (members.length === 0) return;
    const outcome = await this.roster.remove(members);
    if (outcome.kind === "emptied") await this.letGo();
    else this.tidySoon();
  }

  private async hold(registry: Registry): Promise<void> {
    this.letGoAt = undefined;
    await this.log.hold(registry);
  }

  /** Nobody subscribes, so nothing need be kept for anybody; unless somebody is about to. */
  private async letGo(): Promise<void> {
    if (this.joins > 0 || this.hasLetGo()) return;
    this.letGoAt = this.parts.world.now();
    try {
      await this.log.letGo();
    } catch (fault) {
      this.letGoAt = undefined;
      throw fault;
    }
  }

  /** Where several nodes serve, another may have kept something since, so that it does not count for long. */
  private hasLetGo(): boolean {
    const { engine, world, limits } = this.parts;
    if (this.letGoAt === undefined) return false;
    return isMemoryTruth(engine) || world.now() - this.letGoAt < limits.checkMs;
  }

  /** While somebody subscribes, what the stream holds for them stays as it is. */
  async joining<T>(join: () => Promise<T>): Promise<T> {
    this.joins++;
    this.letGoAt = undefined;
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
    // The end of the log was no nearer than the cursor when it was looked at.
    const isBehind = piece === "nothing" && isBefore(at, registry.cursor);
    return isBehind ? Copy.ofNothing(this.stream, at, registry.cursor, registry.seq) : undefined;
  }

  async cameTo(member: Member, at: Position): Promise<boolean> {
    const outcome = await this.roster.caughtUp(member, at);
    if (outcome.kind === "joined") this.wake();
    if (outcome.kind === "gone") await this.roster.look();
    return outcome.kind !== "behind";
  }

  report(what: string, fault: unknown): void {
    if (!this.isStopped) this.parts.report(what, fault);
  }
}

/** Whether anybody at all could be spoken to. */
function hasReached({ copied, missed }: Deliveries): boolean {
  return copied > 0 || missed.some(([, { kind }]) => kind === "lagging");
}

/** Those who have no copy though they are there, and how far they are. */
function laggardsOf(missed: Missed, slow: readonly Member[], prev: Position) {
  const found = missed.flatMap(([member, result]) => {
    if (result.kind === "stale") return [];
    return [{ ...member, at: result.kind === "lagging" ? result.at : prev }];
  });
  for (const member of slow) found.push({ ...member, at: prev });
  return found;
}

function staleOf(missed: Missed): readonly RemoveSubscriber[] {
  return missed.flatMap(([member, result]) =>
    result.kind === "stale" ? [{ ...member, keepsBorrowing: result.borrows }] : [],
  );
}

function isSame(a: Member | undefined, b: Member): boolean {
  return a?.incarnation === b.incarnation && a.epoch === b.epoch;
}
