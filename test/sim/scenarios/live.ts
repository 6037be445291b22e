/**
 * Live under tabs that connect, subscribe, leave and come back, publishers, streams that are trimmed, deleted and created anew,
 * and servers that die. live.test.ts runs it. Each row of the failure modes that Live is built for is a scenario of its own.
 *
 * Invariants: a tab that keeps to the handshake processes every message that it is owed exactly once and in order, and is told of
 * what is lost. When all is quiet, it has everything, and gets the next message by a push. Nothing stays behind.
 */
import type { HostSettings } from "../host.ts";
import type { Random } from "../random.ts";
import type { Play, Scenario, Stage } from "../scenario.ts";
import { Ledger } from "./live/ledger.ts";
import { type Habits, SimTab } from "./live/tab.ts";
import { SourceLogs } from "./sessions/source-logs.ts";

const MAX_BLOWS = 8;
const PATIENCE_MS = 3_000;
/** Longer than any run. */
const LONG_SECONDS = 1_000_000;
/** In a calm world a tab is connected and has caught up by then. */
const SETTLED_MS = 60_000;

const HABITS: Habits = { subscribe: 4, unsubscribe: 1, hide: 2, disconnect: 1, reload: 1 };

interface Profile {
  readonly name: string;
  readonly habits: Habits;
  /** How often servers die or restart; 0: never. */
  readonly blows: number;
  readonly ttlSeconds: number;
  /** Messages that streams keep. */
  readonly retention: readonly (number | undefined)[];
  /** Whether streams are deleted and created anew. */
  readonly replaces: boolean;
  /** Whether streams are closed at the end. */
  readonly closes: boolean;
  readonly sizes: readonly number[];
  readonly notifyBytes: readonly number[];
  readonly slowReaderBytes: readonly number[];
  readonly active: readonly number[];
}

const PLAIN: Profile = {
  name: "",
  habits: HABITS,
  blows: MAX_BLOWS,
  ttlSeconds: LONG_SECONDS,
  retention: [undefined],
  replaces: false,
  closes: false,
  sizes: [0],
  notifyBytes: [100_000],
  slowReaderBytes: [100_000],
  active: [1_000],
};

const PROFILES: readonly Profile[] = [
  {
    ...PLAIN,
    name: "a tab that is cut off in the middle of a push catches up from the last offset it processed",
    habits: { ...HABITS, disconnect: 6 },
    slowReaderBytes: [100, 1_000, 100_000],
  },
  {
    ...PLAIN,
    name: "a tab that gets a message by push and by catch-up, or by two connections, processes it once",
    habits: { subscribe: 8, unsubscribe: 0, hide: 1, disconnect: 3, reload: 0 },
    blows: 0,
  },
  {
    ...PLAIN,
    name: "pushes come in the order of their stream, whatever is delayed",
    habits: { subscribe: 6, unsubscribe: 1, hide: 1, disconnect: 0, reload: 0 },
    sizes: [0, 400],
  },
  {
    ...PLAIN,
    name: "requests of an earlier epoch that come late change nothing of a later subscription",
    habits: { subscribe: 6, unsubscribe: 6, hide: 4, disconnect: 1, reload: 1 },
  },
  { ...PLAIN, name: "a tab misses nothing when hubs restart and die", habits: { ...HABITS, disconnect: 0 }, blows: 30 },
  {
    ...PLAIN,
    name: "a large payload is announced, and the tab reads it",
    sizes: [0, 0, 300],
    notifyBytes: [1, 100],
    slowReaderBytes: [300, 100_000],
  },
  {
    ...PLAIN,
    name: "a tab is told of what retention took, and of nothing else",
    retention: [1, 5, undefined],
    slowReaderBytes: [100, 100_000],
  },
  { ...PLAIN, name: "a stream that is deleted and created anew is followed as another stream", replaces: true },
  {
    ...PLAIN,
    name: "a tab that reloads reads on from its pointer, which is never ahead of what it said it processed",
    habits: { subscribe: 3, unsubscribe: 1, hide: 5, disconnect: 1, reload: 5 },
  },
  { ...PLAIN, name: "a tab whose session has expired goes on from its own offsets", ttlSeconds: 2 },
  { ...PLAIN, name: "a tab gets every message of a stream that is closed, and learns of its end", closes: true },
  {
    ...PLAIN,
    name: "everything at once",
    habits: { subscribe: 5, unsubscribe: 2, hide: 2, disconnect: 2, reload: 1 },
    retention: [3, undefined],
    replaces: true,
    sizes: [0, 300],
    notifyBytes: [1, 100, 100_000],
    slowReaderBytes: [100, 1_000, 100_000],
    active: [1, 2, 1_000],
  },
];

const scenarioOf = (profile: Profile): Scenario => ({
  name: profile.name,
  settings: (random) => settings(random, profile),
  maxBlows: profile.blows,
  begin: (stage) => new LivePlay(stage, profile),
});

export const liveScenarios: readonly Scenario[] = PROFILES.map(scenarioOf);
/** A tab may connect to either of two servers, which share a storage. */
export const liveOfTwo: readonly Scenario[] = [PROFILES.at(-1)!, PROFILES[3]!].map((profile) => ({
  ...scenarioOf(profile),
  nodes: 2,
}));

function settings(random: Random, profile: Profile): HostSettings {
  return {
    drainMs: 1_000,
    sessionTtlSeconds: profile.ttlSeconds,
    stream: { pageBytes: random.pick([1, 300, 100_000]) },
    live: { notifyBytes: random.pick(profile.notifyBytes), slowReaderBytes: random.pick(profile.slowReaderBytes) },
    internal: {
      sweep: { everyMs: 1_000 },
      session: { cleanupMs: 1_000, endAgainMs: 500, pageRows: random.pick([1, 1_000]) },
      live: {
        lifetimeMs: random.pick([1_000, 100_000]),
        lingerMs: random.pick([100, 2_000]),
        heartbeatMs: random.pick([100, 5_000]),
        spreadMs: 200,
        // A leave that the store refused is stored again by then, before the run looks for what was left behind.
        checkMs: 100,
        active: random.pick(profile.active),
        pageRows: random.pick([1, 2, 1_000]),
        batch: random.pick([1, 50]),
        reconcileMs: random.pick([500, 5_000]),
        inlineRemovals: random.pick([0, 200]),
      },
    },
  };
}

class LivePlay implements Play {
  private readonly ledger: Ledger;
  private readonly paths: readonly string[];
  private readonly tabs: readonly SimTab[];
  private readonly logs: SourceLogs;
  private readonly retention = new Map<string, number | undefined>();
  private sent = 0;

  constructor(
    private readonly stage: Stage,
    private readonly profile: Profile,
  ) {
    const { random, hosts, world } = stage;
    this.ledger = new Ledger(!profile.replaces);
    this.paths = Array.from({ length: random.between(1, 3) }, (_, i) => `s${i}`);
    for (const path of this.paths) this.retention.set(path, random.pick(profile.retention));
    this.tabs = Array.from({ length: random.between(1, 3) }, (_, i) => new SimTab(`tab-${i}`, stage, this.ledger));
    this.logs = new SourceLogs(world, this.paths);
    for (const host of hosts) host.surroundings = { opened: (engine) => this.logs.opened(engine) };
  }

  async act(): Promise<void> {
    const { random } = this.stage;
    for (const path of this.paths) await this.create(path);
    const steps = random.between(3, random.pick([6, 15]));
    await Promise.all([
      ...this.paths.map((path) => this.publish(path, random.between(3, 25))),
      ...(this.profile.replaces ? this.paths.map((path) => this.replace(path, random.between(0, 2))) : []),
      ...this.tabs.map((tab) => tab.act(this.paths, steps, this.profile.habits)),
    ]);
  }

  private async close(path: string): Promise<void> {
    await this.stage.world.sleep(this.stage.random.between(0, 300));
    await this.insist("POST", path, { "stream-closed": "true" });
  }

  private async ask(method: string, path: string, headers: Record<string, string> = {}, body?: string) {
    const bytes = body === undefined ? undefined : Buffer.from(body);
    const spec = {
      method,
      path: `/v1/stream/${path}`,
      headers: { "content-type": "application/json", ...headers },
      body: bytes,
    };
    const answer = await this.stage.network.request(spec, PATIENCE_MS);
    return answer.kind === "reply" && answer.head.status < 500 ? answer.head.status : undefined;
  }

  /** Repeats a request until it is answered. */
  private async insist(...args: Parameters<LivePlay["ask"]>): Promise<number> {
    for (;;) {
      const status = await this.ask(...args);
      if (status !== undefined) return status;
      await this.stage.world.sleep(this.stage.random.between(1, 200));
    }
  }

  private create(path: string): Promise<number> {
    const kept = this.retention.get(path);
    return this.insist("PUT", path, kept === undefined ? {} : { "stream-max-messages": String(kept) });
  }

  private async publish(path: string, count: number): Promise<void> {
    const { random, world } = this.stage;
    for (let i = 0; i < count; i++) {
      await this.append(path);
      await world.sleep(random.between(0, random.pick([0, 20, 300])));
    }
    if (this.profile.closes) await this.close(path);
  }

  /** Every message has a name of its own; a repeated request appends it again, as another message. */
  private append(path: string): Promise<number> {
    const size = this.stage.random.pick(this.profile.sizes);
    return this.insist("POST", path, {}, JSON.stringify([`${path}-${this.sent++}|${"x".repeat(size)}`]));
  }

  private async replace(path: string, times: number): Promise<void> {
    const { random, world } = this.stage;
    for (let i = 0; i < times; i++) {
      await world.sleep(random.between(0, 1_500));
      await this.insist("DELETE", path);
      await world.sleep(random.between(0, random.pick([0, 300])));
      await this.create(path);
    }
  }

  /** In a calm world every tab catches up, and gets the next message of each of its streams by a push. */
  async audit(): Promise<void> {
    const { tabs, paths, ledger } = this;
    for (const path of paths) await this.create(path);
    for (const tab of tabs) await tab.resume();
    await this.until("settles", (tab) => tab.hasSettled);
    if (this.profile.closes) await this.until("learns of the end", (tab) => tab.streams.length === 0);
    const before = new Map(tabs.map((tab) => [tab, tab.catchUps]));
    for (const path of paths) await this.append(path);
    const ends = new Map(paths.map((path) => [path, this.endOf(path)]));
    const missing = (tab: SimTab) => tab.streams.filter((stream) => tab.offsetOf(stream)! < ends.get(stream)!);
    await this.until("gets the last message", (tab) => missing(tab).length === 0);
    if (this.isPushed) {
      for (const [tab, count] of before) if (tab.catchUps > count) ledger.object(tab.name, "needed a read for a push");
    }
    for (const tab of tabs) await tab.close();
    ledger.judge((path) => this.logs.of(path));
  }

  /** Whether a push needs no read afterwards: nothing is announced, parked or recycled. */
  private get isPushed(): boolean {
    const { live, internal, sessionTtlSeconds } = this.stage.host.settings;
    const isLong = internal.live.lifetimeMs > SETTLED_MS && sessionTtlSeconds === LONG_SECONDS;
    return isLong && live.notifyBytes > 1_000 && live.slowReaderBytes > 10_000 && internal.live.active > 10;
  }

  private endOf(path: string): string {
    const { generation, seq } = this.logs.of(path).at(-1)!.position;
    return `${String(generation).padStart(16, "0")}_${String(seq).padStart(16, "0")}`;
  }

  private async until(what: string, holds: (tab: SimTab) => boolean): Promise<void> {
    const { world } = this.stage;
    const deadline = world.now() + SETTLED_MS;
    while (!this.tabs.every(holds) && world.now() < deadline) await world.sleep(100);
    for (const tab of this.tabs) if (!holds(tab)) this.ledger.object(tab.name, `never ${what}`);
  }

  violations(): string[] {
    return this.ledger.violations;
  }

  tell(): string[] {
    return this.ledger.lines;
  }
}
