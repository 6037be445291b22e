/**
 * Streams under concurrent clients, faults and restarts: one scenario per stressed property, and one for everything at once.
 * streams.test.ts and streams-disk.test.ts run them. Roles are in streams/; checkers in ../check.
 */
import { checkStreams } from "../check/index.ts";
import { show } from "../history.ts";
import type { HostSettings } from "../host.ts";
import type { Random } from "../random.ts";
import type { Play, Scenario, Stage } from "../scenario.ts";
import { auditAll, takeDown } from "./streams/audit.ts";
import { Cast, type StreamPlan } from "./streams/cast.ts";
import { checkWaiters, leaveInTheMiddle } from "./streams/liveness.ts";
import { followLive, pollLong, readPages } from "./streams/readers.ts";
import { closeSomeDay, createOften, deleteNowAndThen, lookAround, quarrel } from "./streams/upheaval.ts";
import { produce, writeInSequence, writePlainly } from "./streams/writers.ts";

const LONG_POLL_MS = 2_500;

/** How often each role is cast, and the streams on which they meet. */
interface Profile {
  readonly name: string;
  readonly streams: number;
  readonly forks?: number;
  readonly extras?: readonly Partial<StreamPlan>[];
  readonly roles: Readonly<Record<Role, number>>;
  /** How many clients besides the creators. */
  readonly clients: readonly [number, number];
}

const ROLES = {
  plain: (cast: Cast, plan: StreamPlan) => writePlainly(cast, plan, cast.random.between(2, 12)),
  sequence: (cast: Cast, plan: StreamPlan) => writeInSequence(cast, plan, cast.random.between(2, 10)),
  producer: (cast: Cast, plan: StreamPlan) => produce(cast, plan, cast.random.between(2, 12)),
  pager: (cast: Cast, plan: StreamPlan) => readPages(cast, plan, cast.random.between(1, 4)),
  poller: (cast: Cast, plan: StreamPlan) => pollLong(cast, plan, cast.random.between(2, 8)),
  follower: (cast: Cast, plan: StreamPlan) => followLive(cast, plan, cast.random.between(1, 5)),
  deleter: (cast: Cast, plan: StreamPlan) => deleteNowAndThen(cast, plan, cast.random.between(1, 3)),
  closer: (cast: Cast, plan: StreamPlan) => closeSomeDay(cast, plan),
  quarrel: (cast: Cast, plan: StreamPlan) => quarrel(cast, plan, cast.random.between(1, 3)),
  looker: (cast: Cast, plan: StreamPlan) => lookAround(cast, plan, cast.random.between(1, 8)),
};

type Role = keyof typeof ROLES;

const NONE: Record<Role, number> = {
  plain: 0,
  sequence: 0,
  producer: 0,
  pager: 0,
  poller: 0,
  follower: 0,
  deleter: 0,
  closer: 0,
  quarrel: 0,
  looker: 0,
};

const SOON_OVER: readonly Partial<StreamPlan>[] = [
  { ttlSeconds: 1 },
  { ttlSeconds: 3 },
  { retention: { maxMessages: 5 } },
  { retention: { maxBytes: 60 } },
  { retention: { maxAgeSeconds: 2 } },
  { retention: { maxMessages: 3 }, ttlSeconds: 6 },
];

const PROFILES: readonly Profile[] = [
  {
    name: "acknowledged messages are durable, once and in order, with every kind of writer",
    streams: 2,
    roles: { ...NONE, plain: 3, sequence: 2, producer: 5, pager: 2, looker: 1, closer: 0.3 },
    clients: [3, 7],
  },
  {
    name: "live readers see every message once, in order, and leave no state behind",
    streams: 1,
    roles: { ...NONE, plain: 3, producer: 1, poller: 3, follower: 4, closer: 0.5, deleter: 0.2 },
    clients: [4, 8],
  },
  {
    name: "streams that are closed, deleted and created anew are linearizable",
    streams: 1,
    roles: {
      ...NONE,
      plain: 3,
      sequence: 1,
      producer: 2,
      pager: 1,
      poller: 1,
      follower: 1,
      deleter: 2,
      closer: 1,
      quarrel: 2,
      looker: 3,
    },
    clients: [4, 8],
  },
  {
    name: "forks keep their inherited messages",
    streams: 2,
    forks: 2,
    extras: [{}, {}, { retention: { maxMessages: 4 } }, { retention: { maxAgeSeconds: 2 } }],
    roles: { ...NONE, plain: 4, producer: 1, pager: 2, poller: 1, follower: 1, deleter: 1, quarrel: 3, looker: 1 },
    clients: [5, 9],
  },
  {
    name: "retention keeps at least its limits, and a TTL never ends early",
    streams: 2,
    extras: SOON_OVER,
    roles: { ...NONE, plain: 4, producer: 1, pager: 2, poller: 2, follower: 2, looker: 2 },
    clients: [3, 7],
  },
  {
    name: "many streams at once do not disturb each other",
    streams: 5,
    roles: { ...NONE, plain: 6, producer: 2, pager: 1, deleter: 0.5, looker: 2 },
    clients: [7, 12],
  },
  {
    name: "all promises hold with every role at once",
    streams: 2,
    forks: 1,
    extras: [{}, {}, ...SOON_OVER],
    roles: {
      plain: 3,
      sequence: 1,
      producer: 2,
      pager: 1,
      poller: 1,
      follower: 2,
      deleter: 1,
      closer: 0.5,
      quarrel: 1,
      looker: 1,
    },
    clients: [5, 10],
  },
];

export const streamScenarios: readonly Scenario[] = PROFILES.map((profile) => ({
  name: profile.name,
  settings,
  begin: (stage) => new StreamPlay(stage, profile),
}));

function settings(random: Random): HostSettings {
  return {
    longPollMs: LONG_POLL_MS,
    drainMs: 1_000,
    stream: { bodyBytes: 4_096, pageBytes: random.pick([1, 40, 200, 100_000]) },
    tail: {
      sseMs: 6_000,
      heartbeatMs: random.pick([500, 15_000]),
      readers: random.pick([2, 100, 100]),
      slowReaderBytes: random.pick([100, 1_000, 100_000]),
    },
  };
}

class StreamPlay implements Play {
  private readonly cast: Cast;
  private readonly problems: string[] = [];

  constructor(
    private readonly stage: Stage,
    private readonly profile: Profile,
  ) {
    this.cast = new Cast(stage, LONG_POLL_MS);
    this.cast.draw(profile.streams, profile.forks ?? 0, profile.extras ?? []);
  }

  async act(): Promise<void> {
    const { cast, profile } = this;
    const { random } = cast;
    const clients = cast.plans.map((plan) => createOften(cast, plan, random.between(1, 3)));
    for (let left = random.between(...profile.clients); left > 0; left--) {
      const role = ROLES[random.weighted(profile.roles)];
      const plan = random.pick(cast.plans);
      clients.push(cast.pause(random.pick([0, 500, 3_000])).then(() => role(cast, plan)));
    }
    await Promise.all(clients);
  }

  async audit(): Promise<void> {
    const { cast } = this;
    this.problems.push(...(await checkWaiters(cast, this.stage.host.settings.tail.readers)));
    await auditAll(cast);
    if (cast.random.chance(0.3)) this.problems.push(...(await takeDown(cast)));
    else await leaveInTheMiddle(cast);
  }

  violations(): string[] {
    return [...checkStreams(this.cast.history), ...this.problems];
  }

  tell(): string[] {
    return this.cast.history.calls.map(show);
  }
}
