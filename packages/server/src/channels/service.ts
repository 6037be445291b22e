/**
 * Channels as every door sees them: admit, publish, read, sweep. It turns calls into rules on the channel's keeper and counts
 * what happens; it decides nothing itself.
 *
 * A publish asks in this order: whether the body is small enough (the door's question), whether the rate allows it (`admit`),
 * and then the rules, whose effects are tracking and appending in one. Each step that fails leaves the later ones undone.
 */
import { type Position, ZERO } from "@sluice/protocol";
import type { Engine, Hit } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { ID_SLOTS } from "./ids.ts";
import type { ChannelLimits, LimitsFor } from "./limits.ts";
import { metaOf, type ReadOutcome, readPage } from "./reading.ts";
import { type NewMessage, type PublishOutcome, publishRule, type SweepOutcome, sweepRule } from "./rules.ts";
import { alive, channelEntity, MARKS, META, metaTable } from "./state.ts";

const PLAIN_KEYS = [META, MARKS];
const KEYS_WITH_IDS = [META, MARKS, ...ID_SLOTS];

export type Admission = Hit | { readonly kind: "unavailable"; readonly fault: unknown };

/** Since the start of this process; for metrics. */
export interface ChannelCounters {
  publishes: number;
  messages: number;
  repeats: number;
  limited: number;
  limiterFailed: number;
  tooLarge: number;
  refused: number;
  gaps: number;
  ended: number;
  abandoned: number;
  ghosts: number;
}

export class Channels {
  readonly counters: ChannelCounters = {
    publishes: 0,
    messages: 0,
    repeats: 0,
    limited: 0,
    limiterFailed: 0,
    tooLarge: 0,
    refused: 0,
    gaps: 0,
    ended: 0,
    abandoned: 0,
    ghosts: 0,
  };

  constructor(
    readonly engine: Engine,
    private readonly keepers: Keepers,
    readonly limitsFor: LimitsFor,
  ) {}

  /** Counts a publish against the channel's rate, for all nodes together. Fails closed: who cannot be counted is not let in. */
  async admit(project: string, channel: string, { rate, windowMs }: ChannelLimits): Promise<Admission> {
    try {
      const hit = await this.engine.hit(`rate_limit:channel:${project}:${channel}`, rate, windowMs);
      if (hit.kind === "limited") this.counters.limited++;
      return hit;
    } catch (fault) {
      this.counters.limiterFailed++;
      return { kind: "unavailable", fault };
    }
  }

  /** Takes all messages or none; resolves when they are durable. */
  async publish(
    project: string,
    channel: string,
    messages: readonly NewMessage[],
    limits: ChannelLimits,
  ): Promise<PublishOutcome> {
    const keys = messages.some(({ messageId }) => messageId !== undefined) ? KEYS_WITH_IDS : PLAIN_KEYS;
    const input = { channel, messages };
    const outcome = await this.keepers.submit(channelEntity(project, channel), keys, (view, now) =>
      publishRule(view, now, input, limits),
    );
    this.count(outcome, messages.length);
    return outcome;
  }

  private count(outcome: PublishOutcome, sent: number): void {
    const { counters } = this;
    if (outcome.kind !== "published") {
      counters.refused++;
      return;
    }
    counters.publishes++;
    counters.messages += outcome.appended;
    counters.repeats += sent - outcome.appended;
    counters.gaps += outcome.gaps;
  }

  /** Reads after a position; undefined means from the earliest message kept. */
  async read(
    project: string,
    channel: string,
    after: Position | undefined,
    maxBytes: number,
    { ttlMs }: ChannelLimits,
  ): Promise<ReadOutcome> {
    const e = channelEntity(project, channel);
    // A channel that is over but not swept yet still has its log.
    if (after !== undefined && (await metaOf(this.engine, e, ttlMs)) === undefined) return { kind: "absent" };
    return readPage(this.engine, e, after ?? ZERO, maxBytes, ttlMs);
  }

  /** Where the log ends; undefined when there is no such channel. */
  async tail(project: string, channel: string, { ttlMs }: ChannelLimits): Promise<Position | undefined> {
    const { head, rows } = await this.engine.load(channelEntity(project, channel), [META]);
    const meta = alive(rows[0] && metaTable.decode(rows[0]), ttlMs, this.engine.now());
    return meta && head.last;
  }

  /** Removes the channel if its time is over or nobody publishes to it any more. */
  async sweep(project: string, channel: string): Promise<SweepOutcome> {
    const limits = this.limitsFor(project, channel);
    const outcome = await this.keepers.submit(channelEntity(project, channel), [META], (view, now) =>
      sweepRule(view, now, limits),
    );
    if (outcome === "ended") this.counters.ended++;
    else if (outcome === "abandoned") this.counters.abandoned++;
    else if (outcome === "ghost") this.counters.ghosts++;
    return outcome;
  }
}
