/**
 * Channels under publishers that repeat requests, readers that come and go, faults and restarts. channels.test.ts runs it.
 *
 * Invariants: every acknowledged message is stored once and in order; no reader misses a message without a reported gap;
 * nothing stays behind.
 */
import { channelEntity } from "../../../packages/server/src/channels/state.ts";
import type { HostSettings } from "../host.ts";
import type { Random } from "../random.ts";
import type { Play, Scenario, Stage } from "../scenario.ts";
import { follow, publishAnswer } from "./channels/client.ts";
import { Ledger } from "./channels/ledger.ts";

/** Longer than any run. */
const LONG_MS = 10_000_000;
const SHORT_MS = 3_000;
/** Longer than a request can be in flight plus the lifetime of what it may have started. */
const AFTERLIFE_MS = 20_000;

interface Profile {
  readonly name: string;
  readonly lifeMs: number;
  readonly messages: readonly number[];
}

const PROFILES: readonly Profile[] = [
  {
    name: "acknowledged messages are stored once and in order, and every reader sees them",
    lifeMs: LONG_MS,
    messages: [1_000],
  },
  { name: "a reader that misses trimmed messages gets a gap", lifeMs: LONG_MS, messages: [5, 20] },
  { name: "channels that ended or were abandoned leave nothing behind", lifeMs: SHORT_MS, messages: [5, 1_000] },
];

export const channelScenarios: readonly Scenario[] = PROFILES.map((profile) => ({
  name: profile.name,
  settings: (random) => settings(random, profile),
  begin: (stage) => new ChannelPlay(stage, profile),
}));

function settings(random: Random, { lifeMs, messages }: Profile): HostSettings {
  return {
    drainMs: 1_000,
    stream: { pageBytes: random.pick([1, 200, 100_000]) },
    tail: { sseMs: 6_000, slowReaderBytes: random.pick([100, 1_000, 100_000]) },
    channel: { rate: random.pick([3, 1_000]), messages: random.pick(messages), ttlMs: lifeMs, idleMs: lifeMs },
    internal: { channel: { cleanupMs: Math.min(lifeMs, 1_000), heartbeatMs: random.pick([100, 5_000]) } },
  };
}

class ChannelPlay implements Play {
  private readonly ledger = new Ledger();
  private readonly channels: readonly string[];

  constructor(
    private readonly stage: Stage,
    private readonly profile: Profile,
  ) {
    this.channels = Array.from({ length: stage.random.between(1, 3) }, (_, i) => `c${i}`);
  }

  async act(): Promise<void> {
    const { stage, ledger } = this;
    const { random } = stage;
    const clients = this.channels.flatMap((channel) => [
      publishAnswer(stage, ledger, channel, random.between(2, 40)),
      ...Array.from({ length: random.between(0, 2) }, () => follow(stage, ledger, channel, random.between(1, 8))),
    ]);
    await Promise.all(clients);
  }

  async audit(): Promise<void> {
    const { stage, ledger } = this;
    if (this.profile.lifeMs === SHORT_MS) return this.auditEmptiness();
    const { messages } = stage.host.settings.channel;
    for (const channel of this.channels) {
      const last = ledger.lastAcknowledged(channel);
      if (last < 0) continue;
      // The server may still have accepted a request that its client gave up on.
      const { log, trimmed } = await follow(stage, ledger, channel, 20, (sequence) => sequence >= last);
      const all = await follow(stage, ledger, channel, 1);
      const whole = all.log.length >= log.length ? all : { log, trimmed };
      const { engine } = stage.host.app!.channels;
      const { head } = await engine.load(channelEntity("default", channel), []);
      const stored = { kept: head.last.seq - head.start.seq, appended: head.last.seq };
      ledger.audit(channel, whole.log, whole.trimmed, stored, messages);
    }
  }

  /** No channel is left, and no entry of one in the index. */
  private async auditEmptiness(): Promise<void> {
    const { host, world } = this.stage;
    await world.sleep(AFTERLIFE_MS);
    const { engine } = host.app!.channels;
    const { ids } = await engine.list("default", "channel", "", "", 10);
    if (ids.length > 0) this.ledger.object(ids.join(), "is left, though its time is over");
    const due = await engine.due(0, 10);
    if (due.length > 0) this.ledger.object(due.map(({ id }) => id).join(), "is in the index, and not swept");
  }

  violations(): string[] {
    return this.ledger.violations;
  }

  tell(): string[] {
    return [];
  }
}
