/**
 * Channels as every door uses them: publish, stop, read, sweep. It submits rules to the channel's keeper and counts outcomes.
 *
 * A publish passes these steps in order, and a step that fails prevents the later ones:
 * - Its size is checked.
 * - It is counted against the channel's rate. That is a separate step and fails closed.
 * - Its messages are parsed.
 * - Messages whose sequence is stored already are compared with the log. A different message is refused.
 * - The publish rule appends the messages, trims the log and moves the reminder, in one commit.
 *
 * A channel is tracked by its publishes. An index of active channels beside the data could disagree with the data: an
 * untracked publish would leave an orphan, and an entry that was not removed would leave a ghost. Here the index entry
 * is the entity's reminder. The publish, its trim and the reminder are effects of one commit, and so are the removal of
 * a channel and of its entry.
 *
 * A plain DELTA writes one log entry and no row. Its sequence follows from the stored runs (sequences.ts), and the
 * reminder moves once per interval.
 *
 * Invariants: every stored channel has a reminder, and every reminder has a channel. All messages of one publish are
 * stored, or none.
 */
import { type Position, ZERO } from "@sluice/protocol";
import { Refusal } from "../core/refusal.ts";
import type { Engine, Entity, Hit } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { ChannelLimits, LimitsFor } from "./defaults.ts";
import { ID_SLOTS } from "./ids.ts";
import { metaOf, type ReadOutcome, readPage } from "./reading.ts";
import { firstDifferent } from "./repeats.ts";
import {
  type Compare,
  type NewMessage,
  type PublishOutcome,
  publishRule,
  type SweepOutcome,
  sweepRule,
} from "./rules.ts";
import { alive, channelEntity, MARKS, META, metaTable } from "./state.ts";
import { type Stop, type StopOutcome, stopRule } from "./stopping.ts";

const PLAIN_KEYS = [META, MARKS];
const KEYS_WITH_IDS = [META, MARKS, ...ID_SLOTS];

/** A publish as a door hands it over. */
export interface Publish {
  /** The size of the request that carries it. */
  readonly bytes: number;
  /** Reads the messages off the request, once it is admitted. Throws a Refusal for a malformed one. */
  messages(): readonly NewMessage[];
}

export interface Tail {
  readonly position: Position;
  /** Set if the publisher was asked to stop. */
  readonly stop: Stop | undefined;
}

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
  stops: number;
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
    stops: 0,
    ended: 0,
    abandoned: 0,
    ghosts: 0,
  };

  constructor(
    readonly engine: Engine,
    private readonly keepers: Keepers,
    readonly limitsFor: LimitsFor,
  ) {}

  /** Throws a Refusal for a publish that is too large or above the channel's rate. Resolves when the messages are durable. */
  async publish(project: string, channel: string, { bytes, messages }: Publish): Promise<PublishOutcome> {
    const limits = this.limitsFor(project, channel);
    if (bytes > limits.bodyBytes) throw this.tooLarge(limits);
    await this.admit(project, channel, limits);
    return this.store(project, channel, messages(), limits);
  }

  /** Counts and refuses a publish that a door stopped reading at the limit. */
  tooLarge({ bodyBytes }: ChannelLimits): Refusal {
    this.counters.tooLarge++;
    return new Refusal("too-large", `a publish may have at most ${bodyBytes} bytes; send it as several DELTAs`);
  }

  /**
   * Counts a publish against the channel's rate, across all nodes. Fails closed: a publish that cannot be counted is
   * refused.
   */
  private async admit(project: string, channel: string, { rate, windowMs }: ChannelLimits): Promise<void> {
    let hit: Hit;
    try {
      hit = await this.engine.hit(`rate_limit:channel:${project}:${channel}`, rate, windowMs);
    } catch {
      this.counters.limiterFailed++;
      const detail = "the rate limit cannot be checked, so no publish is accepted; retry later";
      throw new Refusal("limiter-unavailable", detail);
    }
    if (hit.kind === "allowed") return;
    this.counters.limited++;
    const { retryAfterMs } = hit;
    const detail = `a channel accepts ${rate} publishes in ${windowMs} ms; retry after ${retryAfterMs} ms`;
    throw new Refusal("rate-limited", detail, { retryAfterMs });
  }

  /** Stores all messages or none. */
  async store(
    project: string,
    channel: string,
    messages: readonly NewMessage[],
    limits: ChannelLimits,
  ): Promise<PublishOutcome> {
    const keys = messages.some(({ messageId }) => messageId !== undefined) ? KEYS_WITH_IDS : PLAIN_KEYS;
    const e = channelEntity(project, channel);
    const compared = new Map<NewMessage, Position>();
    for (;;) {
      const input = { channel, messages, compared };
      const decided = await this.keepers.submit(e, keys, (view, now) => publishRule(view, now, input, limits));
      const outcome = decided.kind === "compare" ? await this.compare(e, decided, compared) : decided;
      if (outcome === undefined) continue;
      this.count(outcome, messages.length);
      return outcome;
    }
  }

  /** Undefined when every repeated message is the same as the stored one; the rule then runs again. */
  private async compare(
    e: Entity,
    { pairs, different }: Compare,
    compared: Map<NewMessage, Position>,
  ): Promise<PublishOutcome | undefined> {
    const message = await firstDifferent(this.engine, e, pairs);
    if (message !== undefined) return different(message);
    for (const { message, position } of pairs) compared.set(message, position);
    return undefined;
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

  /** Asks the publisher to stop. Resolves when the request is durable. */
  async stop(project: string, channel: string, stop: Stop): Promise<StopOutcome> {
    const limits = this.limitsFor(project, channel);
    const outcome = await this.keepers.submit(channelEntity(project, channel), PLAIN_KEYS, (view, now) =>
      stopRule(view, now, channel, stop, limits),
    );
    if (outcome.kind === "stopped") this.counters.stops++;
    return outcome;
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
    // An expired channel that is not swept yet still has its log.
    if (after !== undefined && (await metaOf(this.engine, e, ttlMs)) === undefined) return { kind: "absent" };
    return readPage(this.engine, e, after ?? ZERO, maxBytes, ttlMs);
  }

  /** Where the log ends, and what is stored of the channel; undefined if it does not exist. */
  async tail(project: string, channel: string, { ttlMs }: ChannelLimits): Promise<Tail | undefined> {
    const { head, rows } = await this.engine.load(channelEntity(project, channel), [META]);
    const meta = alive(rows[0] && metaTable.decode(rows[0]), ttlMs, this.engine.now());
    return meta && { position: head.last, stop: meta.stop };
  }

  /** Removes the channel if it has expired or is abandoned. */
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
