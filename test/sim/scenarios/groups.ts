/**
 * A group whose members come, leave and die, on servers that die and restart, while streams are written, closed and created.
 * groups.test.ts runs it on one server and on three that share a storage. test/groups checks the same of the rules alone, with
 * many more seeds.
 *
 * Invariants: the ledger's (test/groups/ledger.ts): every message to the group at least once, no stream with two borrowers in one
 * epoch, order within a stream, nothing delivered after its acknowledgement was confirmed.
 */
import { ZERO } from "@sluice/protocol";
import { utf8 } from "../../../packages/server/src/core/bytes.ts";
import { EngineError } from "../../../packages/server/src/engine/contract.ts";
import { type GroupName, parseTopic } from "../../../packages/server/src/groups/topic.ts";
import { Ledger } from "../../groups/ledger.ts";
import type { Host } from "../host.ts";
import type { Play, Scenario, Stage } from "../scenario.ts";
import { type Around, logName, SimMember } from "./groups/member.ts";

const PROJECT = "p";
const MAX_BLOWS = 4;
const STREAMS = 4;
const EVICTED_MS = 12_000;
/** In a calm world the group has a leader and has processed everything by then. */
const SETTLED_MS = 60_000;

const SHARED = "$share/g/orders/#";
const QUEUED = "$queue/g/orders/#";

export const groupsOfOne: readonly Scenario[] = [
  scenario("a group processes everything on one server", 1, SHARED),
  scenario("a queue processes everything on one server", 1, QUEUED),
];
export const groupsOfThree: readonly Scenario[] = [
  scenario("a group processes everything on three servers", 3, SHARED),
  scenario("a queue processes everything on three servers", 3, QUEUED),
];

function scenario(name: string, nodes: number, topic: string): Scenario {
  const settings = () => ({ drainMs: 1_000, internal: { group: { relistMs: 10_000, leaseMs: 3_000 } } });
  return { name, nodes, maxBlows: MAX_BLOWS, settings, begin: (stage) => new GroupsPlay(stage, parseTopic(topic)) };
}

class GroupsPlay implements Play {
  private readonly ledger: Ledger;
  private readonly around: Around;
  private members: SimMember[] = [];
  private names = 0;

  constructor(
    private readonly stage: Stage,
    private readonly name: GroupName,
  ) {
    const { world, random } = stage;
    this.ledger = new Ledger(() => world.elapsedMs);
    this.around = { world, random: random.branch(), ledger: this.ledger, project: PROJECT, name };
  }

  async act(): Promise<void> {
    const { world, random } = this.stage;
    await this.persist((host) => host.app!.groups.service.declare(PROJECT, this.name, { kind: "latest" }));
    for (let rounds = random.between(8, 25); rounds > 0; rounds--) {
      const what = random.weighted({ publish: 6, join: 4, leave: 1, unsubscribe: 2, close: 0.5 });
      this.ledger.note(what);
      if (what === "publish") await this.publish(`orders/${random.below(STREAMS)}`, random.between(1, 5));
      else if (what === "close") await this.close(`orders/${random.below(STREAMS)}`);
      else if (what === "join") void this.join();
      else this.pick()?.[what === "leave" ? "disconnect" : "unsubscribe"]();
      await world.sleep(random.between(0, random.pick([20, 500, 5_000])));
    }
    for (const member of this.members) member.disconnect();
    // A leader that was not told evicts them, and then watches nothing.
    await world.sleep(EVICTED_MS);
  }

  private pick(): SimMember | undefined {
    const alive = this.members.filter(({ isAlive }) => isAlive);
    return alive.length === 0 ? undefined : this.stage.random.pick(alive);
  }

  private async join(on?: Host): Promise<void> {
    const up = this.stage.hosts.filter(({ app }) => app !== undefined);
    const host = on ?? (up.length === 0 ? undefined : this.stage.random.pick(up));
    if (host === undefined) return;
    const member = new SimMember(this.around, host, `m${++this.names}`);
    this.members.push(member);
    await member.join();
  }

  /** Tries until a server has answered. A repeated append may be stored twice, which the audit sees in the log. */
  private async persist<T>(work: (host: Host) => Promise<T>): Promise<T> {
    const { world, random, hosts } = this.stage;
    for (;;) {
      const host = random.pick(hosts);
      const { app } = host;
      if (app !== undefined) {
        const died = (async () => {
          while (host.app === app) await world.sleep(50);
          return undefined;
        })();
        try {
          const answer = await Promise.race([work(host), died]);
          if (answer !== undefined) return answer;
        } catch (fault) {
          if (!(fault instanceof EngineError)) throw fault;
        }
      }
      await world.sleep(random.between(1, 100));
    }
  }

  private async publish(path: string, count: number): Promise<void> {
    const config = { contentType: "text/plain" };
    await this.persist((host) => host.app!.streams.create(PROJECT, path, { config, closed: false }));
    const payloads = Array.from({ length: count }, () => utf8("x"));
    const append = { payloads, contentType: "text/plain", close: false };
    await this.persist((host) => host.app!.streams.appendAt(PROJECT, path, append));
  }

  private async close(path: string): Promise<void> {
    await this.persist((host) => host.app!.streams.appendAt(PROJECT, path, { payloads: [], close: true }));
  }

  async audit(): Promise<void> {
    const { world, hosts } = this.stage;
    this.ledger.note("audit");
    this.members = [];
    for (const host of hosts) await this.join(host);
    const untilMs = world.now() + SETTLED_MS;
    const lengths = await this.lengths();
    for (const [name, length] of lengths) this.ledger.published(name, length);
    while (world.now() < untilMs && !this.isThrough(lengths, await this.stored())) await world.sleep(100);
    for (const member of this.members) member.unsubscribe();
    const leaveMs = world.now() + SETTLED_MS;
    while (world.now() < leaveMs && this.members.some(({ hasLeft }) => !hasLeft)) await world.sleep(50);
    if (this.members.some(({ hasLeft }) => !hasLeft)) this.ledger.object("a member was never told that it has left");
    const stored = await this.stored();
    this.ledger.audit((name) => stored.get(name) ?? 0);
  }

  private isThrough(lengths: ReadonlyMap<string, number>, stored: ReadonlyMap<string, number>): boolean {
    return [...lengths].every(([name, length]) => (stored.get(name) ?? 0) >= length);
  }

  private async lengths(): Promise<Map<string, number>> {
    const lengths = new Map<string, number>();
    const { streams } = this.stage.host.app!;
    for (let i = 0; i < STREAMS; i++) {
      const page = await streams.read(PROJECT, `orders/${i}`, ZERO, 1 << 20);
      if (page.kind !== "page") continue;
      const last = page.messages.at(-1)?.position;
      if (last !== undefined) lengths.set(logName(`orders/${i}`, last.generation), last.seq);
    }
    return lengths;
  }

  /** What the group's rows say. */
  private async stored(): Promise<Map<string, number>> {
    const stored = new Map<string, number>();
    const rows = await this.stage.host.app!.groups.service.progress(PROJECT, this.name);
    for (const [path, { generation, seq }] of rows) stored.set(logName(path, generation), seq);
    return stored;
  }

  violations(): string[] {
    return this.ledger.violations.map((what) => `[groups] ${what}`);
  }

  tell(): string[] {
    return this.ledger.story;
  }
}
