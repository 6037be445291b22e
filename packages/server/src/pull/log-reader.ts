/**
 * What a dispatcher reads and writes outside of its entity: the logs of its topic, whose messages it leases, the holds on them, and
 * the dead-letter topic.
 *
 * Invariants: one read of a log is in flight. Logs are watched while streams are open, so that an idle dispatcher costs nothing. A
 * message reaches the dead-letter topic at least once, with its reason, before it counts as acknowledged.
 */
import { formatOffset, type Position } from "@sluice/protocol";
import type { World } from "../core/world.ts";
import type { Engine, Entity, LoggedMessage } from "../engine/contract.ts";
import type { Reason } from "../leases/lease-core.ts";
import { PacedHold } from "../streams/paced-hold.ts";
import type { Streams } from "../streams/service.ts";
import type { Delivery } from "./contract.ts";
import { buryIn, type DeadLetter } from "./dead-letters.ts";
import type { Holder } from "./holders.ts";
import type { PulledLog, Taken } from "./pulled-log.ts";
import type { PullerMeta, TopicRef } from "./state.ts";
import { heldFrom, holdLog } from "./subscription-holds.ts";
import { isOfTopic } from "./topic-ref.ts";

export interface ReaderParts {
  readonly engine: Engine;
  readonly world: World;
  readonly streams: Streams;
  readonly limits: { readonly readBytes: number; readonly aheadMessages: number; readonly retryMs: number };
  readonly report: (what: string, fault: unknown) => void;
}

export interface ReaderEvents {
  /** Messages may be ready. */
  progress(): void;
  topicGone(): void;
  /** Messages count as acknowledged that no client has acknowledged. */
  changed(): void;
  isServing(): boolean;
}

/** Undefined if the log has it no more. */
type Found = LoggedMessage | undefined | "failed";

export class LogReader {
  private topic: TopicRef | undefined;
  private watched: readonly PulledLog[] = [];
  private readonly watches = new Map<PulledLog, () => void>();
  private readonly holds = new Map<PulledLog, PacedHold>();
  private readonly burying = new Set<string>();
  private isStopped = false;

  constructor(
    private readonly parts: ReaderParts,
    private readonly puller: Entity,
    private readonly events: ReaderEvents,
  ) {}

  /** Reads these logs of a topic from now on, and no others. */
  follow(topic: TopicRef, logs: readonly PulledLog[]): void {
    this.rest();
    for (const hold of this.holds.values()) hold.forget();
    this.holds.clear();
    this.topic = topic;
    this.watched = logs;
  }

  private get now(): number {
    return this.parts.engine.now();
  }

  /** Whether this log is still one of the dispatcher's: a seek replaces them all. */
  private isCurrent(log: PulledLog): boolean {
    return !this.isStopped && this.watched.includes(log);
  }

  /** Reads on in every log that may have more. Returns whether a read is in flight. */
  readOn(): boolean {
    for (const log of this.watched) {
      if (log.isReading || log.isDry || log.ahead > this.parts.limits.aheadMessages) continue;
      this.watch(log);
      log.isReading = true;
      this.read(log);
    }
    return this.watched.some(({ isReading }) => isReading);
  }

  private read(log: PulledLog): void {
    this.readFrom(log, log.tail).then(
      () => {
        log.isReading = false;
        if (!this.isCurrent(log)) return;
        if (log.isChanged) this.events.changed();
        this.events.progress();
      },
      (fault) => {
        if (!this.isCurrent(log)) return;
        this.parts.report(`reading ${log.path} for ${this.puller.key} failed; it is repeated`, fault);
        this.parts.world.after(this.parts.limits.retryMs, () => this.readAgain(log));
      },
    );
  }

  private readAgain(log: PulledLog): void {
    if (!this.isCurrent(log)) return;
    if (this.watches.has(log)) this.read(log);
    // The streams have closed meanwhile. The next one reads, and watches before that.
    else log.isReading = false;
  }

  private async readFrom(log: PulledLog, after: Position): Promise<void> {
    const { streams, limits } = this.parts;
    // Without a watch nothing would tell of a later message.
    log.isDry = this.watches.has(log);
    const page = await streams.peek(this.puller.project, log.path, after, limits.readBytes);
    if (!this.isCurrent(log)) return;
    switch (page.kind) {
      case "page":
        // Another topic of the same name has taken the place of the deleted one.
        if (!isOfTopic(page.meta, this.topic!)) return this.events.topicGone();
        // A commit that came while the page was read has set it to false.
        if (!page.atTail) log.isDry = false;
        return log.read(page.messages, this.now);
      case "trimmed":
        log.trimmed(page.earliest, this.now);
        return this.readFrom(log, log.tail);
      case "lost":
        return this.readFrom(log, page.survived);
      case "ahead":
        return;
      default:
        this.events.topicGone();
    }
  }

  private watch(log: PulledLog): void {
    if (this.watches.has(log) || this.isStopped) return;
    const wake = () => {
      log.isDry = false;
      this.events.progress();
    };
    this.watches.set(log, this.parts.streams.watch(this.puller.project, log.path, wake));
  }

  /** No stream is open. */
  rest(): void {
    for (const [log, unwatch] of this.watches) {
      unwatch();
      log.isDry = false;
    }
    this.watches.clear();
  }

  stop(): void {
    this.isStopped = true;
    this.rest();
    for (const hold of this.holds.values()) hold.forget();
  }

  /** Reads messages again whose payload was not kept, and delivers the batch. */
  async fetch(
    holder: Holder,
    taken: readonly { readonly log: PulledLog; readonly one: Taken }[],
    delivery: (log: PulledLog, one: Taken, message: LoggedMessage) => Delivery,
  ): Promise<void> {
    const found: Delivery[] = [];
    const nearby = new Map<number, LoggedMessage>();
    let nearbyOf: PulledLog | undefined;
    let isFailing = false;
    for (const [i, { log, one }] of taken.entries()) {
      const { seq, number } = one.lease;
      if (log !== nearbyOf) nearby.clear();
      nearbyOf = log;
      const next = taken[i + 1];
      // Leases that end together are given again in their order, so one read brings many.
      const isRun = next?.log === log && next.one.lease.seq === seq + 1;
      const message: Found =
        one.message ??
        nearby.get(seq) ??
        (isFailing ? "failed" : await this.one(log, one.position, isRun ? nearby : undefined));
      if (!this.isCurrent(log) || !log.core.isLeased(seq, number)) continue;
      const isGone = message === undefined || (message !== "failed" && !log.isWanted(message, this.now));
      if (isGone) log.drop(seq);
      else if (message === "failed" || holder.isClosed) log.withdraw(seq, this.now);
      else found.push(delivery(log, one, message));
      isFailing ||= message === "failed";
      log.settle(this.now);
    }
    if (found.length > 0) holder.events.deliver(found);
    const release = () => {
      holder.isFetching = false;
      this.events.progress();
    };
    if (isFailing) this.parts.world.after(this.parts.limits.retryMs, release);
    else release();
  }

  /** Reads one message. With `nearby`, reads those after it too and puts them there. */
  private async one(log: PulledLog, position: Position, nearby?: Map<number, LoggedMessage>): Promise<Found> {
    const { streams, limits } = this.parts;
    const before = { generation: position.generation, seq: position.seq - 1 };
    try {
      const page = await streams.peek(this.puller.project, log.path, before, nearby ? limits.readBytes : 1);
      const message = page.kind === "page" ? page.messages[0] : undefined;
      if (nearby !== undefined && page.kind === "page") {
        nearby.clear();
        // One of another generation may have the number of a message that is lost.
        for (const one of page.messages)
          if (one.position.generation === position.generation) nearby.set(one.position.seq, one);
      }
      return message?.position.seq === position.seq ? message : undefined;
    } catch (fault) {
      this.parts.report(`reading ${log.path} for ${this.puller.key} failed; it is repeated`, fault);
      return "failed";
    }
  }

  /** Retention keeps what is not acknowledged. Called when logs were loaded and after every commit of acknowledgements. */
  hold(meta: PullerMeta): void {
    if (meta.isTopicDeleted || meta.isDetached) return;
    for (const log of this.watched) {
      const hold = this.holds.get(log) ?? this.newHold(log, meta);
      this.holds.set(log, hold);
      this.move(hold, log, meta);
    }
  }

  private move(hold: PacedHold, log: PulledLog, meta: PullerMeta): void {
    heldFrom(this.parts, this.puller, log.path, log.durableFloor, meta.options)
      .then((position) => (this.isCurrent(log) ? hold.move(position, "", 0) : undefined))
      .catch((fault) => {
        this.parts.report(`holding ${log.path} for ${this.puller.key} failed; the next move repeats it`, fault);
      });
  }

  private newHold(log: PulledLog, meta: PullerMeta): PacedHold {
    const { world, report } = this.parts;
    return new PacedHold({
      world,
      store: (at) => holdLog(this.parts, this.puller, log.path, at),
      again: async () => this.hold(meta),
      report: (fault) => report(`holding ${log.path} for ${this.puller.key} failed; the next move repeats it`, fault),
    });
  }

  /** Puts a dead message aside, by the policy of the moment. It is attempted again if there is none any more. */
  bury(log: PulledLog, seq: number, why: Reason, options: () => PullerMeta["options"]): void {
    const position = log.positionOf(seq);
    const key = `${log.index} ${formatOffset(position)}`;
    if (this.burying.has(key)) return;
    this.burying.add(key);
    const attempts = log.core.acks.attemptsOf(seq);
    // A seek, a late acknowledgement or the loss of the message may come first.
    const isDue = () => this.isCurrent(log) && log.isDead(position);
    const end = (how: () => void) => {
      this.burying.delete(key);
      if (!isDue()) return;
      how();
      this.events.changed();
      this.events.progress();
    };
    const again = () => {
      const { deadLetter } = options();
      if (!isDue() || deadLetter === undefined) return end(() => log.revive(seq, this.now));
      this.put(log, position, deadLetter.topic, { attempts, why }).then(
        () => end(() => log.drop(seq)),
        (fault) => {
          if (!this.isCurrent(log)) return;
          this.parts.report(`the dead letter of ${log.path} was not stored; it is repeated`, fault);
          this.parts.world.after(this.parts.limits.retryMs, again);
        },
      );
    };
    again();
  }

  /** A message that the log has no more needs no letter. */
  private async put(
    log: PulledLog,
    position: Position,
    topic: string,
    death: Pick<DeadLetter, "attempts" | "why">,
  ): Promise<void> {
    const message = await this.one(log, position);
    if (message === "failed") throw new Error("the message was not read");
    if (message === undefined) return;
    await buryIn(this.parts.streams, this.puller, topic, { message, stream: log.path, ...death });
  }
}
