/**
 * Sessions under publishers, owners that come and go, faults at every step and restarts. sessions.test.ts runs it.
 *
 * Invariants: every inbox holds exactly the copies that its subscriptions owe it, in order, once. A stuck session delays no
 * other session. A deleted or expired session leaves nothing behind.
 */
import { limitsOf } from "../../../packages/server/src/config/schema.ts";
import type { HostSettings } from "../host.ts";
import type { Random } from "../random.ts";
import type { Play, Scenario, Stage } from "../scenario.ts";
import { auditBorrowing, auditEmptiness, auditRetention, auditStuck } from "./sessions/audit.ts";
import { Caller } from "./sessions/caller.ts";
import { check, type Loss } from "./sessions/check.ts";
import { Core } from "./sessions/faulty-core.ts";
import { TYPES } from "./sessions/messages.ts";
import { Owner, type SourceSpec } from "./sessions/owner.ts";
import { create, Publisher, replace } from "./sessions/publisher.ts";
import { SourceLogs } from "./sessions/source-logs.ts";
import { Story } from "./sessions/story.ts";

/** Clients wait long for late effects; the server need not die all that time. */
const MAX_BLOWS = 15;
/** Longer than any run. */
const LONG_SECONDS = 1_000_000;
/** More bytes than any run has. */
const PLENTY = 1_000_000_000;

interface Profile {
  readonly name: string;
  readonly ttlSeconds: readonly number[];
  /** Whether sources are deleted and created anew. */
  readonly replaces: boolean;
  readonly retention: readonly (number | undefined)[];
  /** How much is kept for lagging sessions. */
  readonly holdBytes: readonly number[];
  readonly keptMessages: readonly number[];
  readonly sizes: readonly number[];
  /** The most messages that a publisher sends. */
  readonly messages: readonly number[];
}

const STEADY: Profile = {
  name: "every inbox holds what its subscriptions owe it, in order and once",
  ttlSeconds: [LONG_SECONDS],
  replaces: false,
  retention: [undefined],
  holdBytes: [PLENTY],
  keptMessages: [100_000],
  sizes: [10],
  messages: [3, 12],
};

const PROFILES: readonly Profile[] = [
  STEADY,
  {
    ...STEADY,
    name: "large messages are borrowed and stay whole when their source trims them",
    retention: [undefined, 5],
    sizes: [10, 100, 400],
    messages: [3, 25],
  },
  { ...STEADY, name: "a stream created anew at its path is another stream", replaces: true, sizes: [10, 100] },
  {
    ...STEADY,
    name: "sessions expire when they are not used, and only then",
    ttlSeconds: [3, 10],
    retention: [undefined, 30],
    sizes: [10, 100],
  },
  {
    ...STEADY,
    name: "messages trimmed before their copy are reported, and no others are missing",
    retention: [2, 5],
    holdBytes: [1, 100, 500],
    sizes: [10, 100],
    messages: [12, 25],
  },
  { ...STEADY, name: "an inbox trims its oldest copies", keptMessages: [3, 20], sizes: [10, 100] },
];

export const sessionScenarios: readonly Scenario[] = PROFILES.map(scenarioOf);

/**
 * Two servers over one storage; each dies by itself, and the other continues its work. While a client subscribes through one
 * of them from an offset on, the other may trim messages after that offset, which is reported as missed.
 */
export const sessionsOfTwo: readonly Scenario[] = PROFILES.map((profile) => ({
  ...scenarioOf({ ...profile, retention: [...profile.retention, 5] }),
  nodes: 2,
}));

function scenarioOf(profile: Profile): Scenario {
  return {
    name: profile.name,
    settings: (random) => settings(random, profile),
    maxBlows: MAX_BLOWS,
    begin: (stage) => new SessionPlay(stage, profile),
  };
}

function settings(random: Random, { ttlSeconds, keptMessages, holdBytes, sizes }: Profile): HostSettings {
  // Where large messages are borrowed, a message without a borrower is removed at once.
  const lends = Math.max(...sizes) > 200;
  return {
    drainMs: 1_000,
    sessionTtlSeconds: random.pick(ttlSeconds),

    stream: { pageBytes: random.pick([1, 300, 100_000]), holdBytes: random.pick(holdBytes) },
    session: { keptMessages: random.pick(keptMessages) },
    fanout: {
      queue: random.chance(0.5),
      queueThreshold: random.pick([1, 2, 200]),
      maxInline: random.pick([1, 2, 1_000]),
      timeoutMs: random.pick([50, 500, 5_000]),
      breakerFailures: random.pick([1, 5]),
      breakerRecoveryMs: random.pick([100, 5_000]),
    },
    internal: {
      sweep: { everyMs: 1_000 },
      session: {
        cleanupMs: 1_000,
        cleanupSessions: random.pick([1, 10]),
        cleanupStreams: random.pick([1, 20]),
        endAgainMs: random.pick([200, 2_000]),
        pageRows: random.pick([1, 2, 1_000]),
      },
      fanout: {
        batch: random.pick([1, 2, 50]),
        queueBatch: random.pick([1, 2, 50]),
        queueConsumers: random.pick([1, 4]),
        graceMs: random.pick([5, 50, 250]),
        retryMs: random.pick([5, 100]),
        maxRetryMs: random.pick([200, 1_000]),
        checkMs: lends ? random.pick([1, 100]) : 1_000,
        roundBytes: random.pick([1, 200, 100_000]),
        shareBytes: lends ? 0 : random.pick([0, 50, 1_024]),
        sharedBytes: lends ? random.pick([5_000, 100_000]) : random.pick([500, 100_000]),
        pageRows: random.pick([1, 2, 1_000]),
      },
    },
  };
}

function sessionsLast({ sessionTtlSeconds }: { readonly sessionTtlSeconds: number }): boolean {
  return sessionTtlSeconds === LONG_SECONDS;
}

class SessionPlay implements Play {
  private readonly story = new Story();
  private readonly sources: readonly SourceSpec[];
  private readonly owners: readonly Owner[];
  private readonly logs: SourceLogs;
  private readonly core: Core;
  private readonly told = new Map();
  private readonly last = new Map<SourceSpec, Publisher>();

  constructor(
    private readonly stage: Stage,
    private readonly profile: Profile,
  ) {
    const { random, host, hosts, world } = stage;
    const types = random.chance(0.5) ? [random.pick(TYPES)] : TYPES;
    this.sources = Array.from({ length: random.between(1, 3) }, (_, i) => ({
      path: `s${i}`,
      contentType: random.pick(types),
      maxMessages: random.pick(profile.retention),
    }));
    const { sessionTtlSeconds: ttlSeconds } = host.settings;
    const isCut = host.settings.session.keptMessages < 1_000;
    const habits = { sources: this.sources, ttlSeconds, deletes: random.chance(0.5), isCut };
    this.owners = Array.from({ length: random.between(1, 5) }, (_, i) => {
      const owner = new Owner(`00000000-0000-4000-8000-00000000000${i}`, this.caller(`owner-${i}`), habits);
      owner.starts = this.told;
      return owner;
    });
    this.logs = new SourceLogs(world, this.paths);
    this.core = new Core(random.branch());
    // So few that sources are evicted while work for them is still in flight.
    const sources = random.pick([1, 2, 1_000]);
    for (const one of hosts) {
      Object.assign(one.settings.fanout, { sources });
      one.surroundings = {
        outside: (process) => ({ streamPortOf: (local) => this.core.of(local, process) }),
        opened: (engine) => this.logs.opened(engine),
      };
    }
  }

  private isCut(path: string): boolean {
    return this.sources.some((source) => source.path === path && source.maxMessages !== undefined);
  }

  /** The messages that retention may trim before they are copied. */
  private get loss(): Loss {
    const { host, hosts } = this.stage;
    if (host.settings.stream.holdBytes < PLENTY) return "anything";
    return hosts.length > 1 ? "while-joining" : "nothing";
  }

  private get paths(): string[] {
    return this.sources.map(({ path }) => path);
  }

  private caller(name: string): Caller {
    return new Caller(name, this.stage, this.story);
  }

  async act(): Promise<void> {
    const { random } = this.stage;
    for (const source of this.sources) await create(this.caller("creator"), source);
    const publishers = this.sources.flatMap((source) =>
      Array.from({ length: random.between(1, 3) }, (_, i) =>
        this.publisher(source, `p${i}`).act(random.between(1, random.pick(this.profile.messages))),
      ),
    );
    const replacing = this.profile.replaces
      ? this.sources.map((source) => replace(this.caller("replacer"), source, random.between(0, 2)))
      : [];
    const steps = random.between(2, random.pick([4, 12]));
    await Promise.all([...publishers, ...replacing, ...this.owners.map((owner) => owner.act(steps))]);
  }

  private publisher(source: SourceSpec, name: string): Publisher {
    return new Publisher(this.caller(name), source, this.profile.sizes, this.told, !this.profile.replaces);
  }

  private lastPublisher(source: SourceSpec): Publisher {
    const publisher = this.last.get(source) ?? this.publisher(source, "last");
    this.last.set(source, publisher);
    return publisher;
  }

  async audit(): Promise<void> {
    const { core, story, owners, sources, stage } = this;
    core.calm();
    const { timeoutMs, maxRetryMs } = limitsOf(stage.host.settings).fanout;
    // Every failed attempt is repeated once more within this time.
    await stage.world.sleep(2 * (timeoutMs + maxRetryMs) + 3_000);
    for (const owner of owners) {
      await owner.read();
      await owner.compare();
    }
    story.violations.push(
      ...check(story, {
        paths: this.paths,
        entries: (path) => this.logs.of(path),
        isCut: (path) => this.isCut(path),
        loss: (path) => (this.isCut(path) ? this.loss : "nothing"),
      }),
    );
    const parts = {
      stage,
      story,
      core,
      owners,
      sources,
      publisher: (source: SourceSpec) => this.lastPublisher(source),
    };
    // A stuck session may miss messages where little is kept for it.
    if (this.loss !== "anything") await auditStuck(parts);
    if (sessionsLast(stage.host.settings)) await auditBorrowing(parts);
    await auditEmptiness(parts);
    await auditRetention(parts);
  }

  violations(): string[] {
    return this.story.violations;
  }

  tell(): string[] {
    return this.story.lines;
  }
}
