/**
 * Borrowers and leaders of one group, as their rules alone: a clock, a network that loses, doubles, delays and reorders every
 * message, a store that fails, leaders that die or are replaced unawares, and members that come, stall, leave and die.
 * protocol.test.ts runs it over thousands of seeds, because a run costs milliseconds.
 *
 * Invariants: everything follows from the seed. The checks are those of `ledger.ts`.
 */
import { GROUP_TIMERS, type GroupTimers } from "../../packages/server/src/groups/defaults.ts";
import type { QueueConfig, StreamRow } from "../../packages/server/src/groups/leader-state.ts";
import type {
  BorrowerAddress,
  FromLeader,
  LeaderAddress,
  ToLeader,
} from "../../packages/server/src/groups/messages.ts";
import type { Block } from "../../packages/server/src/leases/block-row.ts";
import { Random } from "../sim/random.ts";
import { Ledger } from "./ledger.ts";
import { TestLeader } from "./protocol-leader.ts";
import { type Pace, TestMember } from "./protocol-member.ts";

export const TIMERS: GroupTimers = { ...GROUP_TIMERS, unsubscribeMs: 3_000, drainMs: 3_000 };

export interface Weather {
  readonly lost: number;
  readonly doubled: number;
  readonly maxMs: number;
  readonly stalls: number;
  readonly stallMs: number;
  readonly failedStores: number;
}

export const CALM: Weather = { lost: 0, doubled: 0, maxMs: 5, stalls: 0, stallMs: 0, failedStores: 0 };

export function drawWeather(random: Random): Weather {
  return {
    lost: random.pick([0, 0, 0.05, 0.3]),
    doubled: random.pick([0, 0.1, 0.4]),
    maxMs: random.pick([0, 5, 50]),
    stalls: random.pick([0, 0.02, 0.1]),
    stallMs: random.pick([500, 5_000]),
    failedStores: random.pick([0, 0, 0.1]),
  };
}

/** One stream of the group: its messages are the numbers from 1 on. A stream that is created anew has a later generation. */
export interface Log {
  readonly generation: number;
  length: number;
  isClosed: boolean;
}

export function nameOf(path: string, { generation }: Pick<Log, "generation">): string {
  return `${path}@${generation}`;
}

interface Task {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
}

export class ProtocolWorld {
  readonly random: Random;
  readonly ledger: Ledger;
  readonly logs = new Map<string, Log>();
  readonly rows = new Map<string, StreamRow>();
  readonly members = new Set<TestMember>();
  /** The owner of the group by the store, and leaders that do not know yet that they are not. */
  owner: TestLeader | undefined;
  readonly leaders = new Set<TestLeader>();
  now = 0;
  weather: Weather;
  terms = 0;
  ids = 0;
  private readonly tasks: Task[] = [];
  private orders = 0;
  private generations = 0;

  /** Of a queue: what is stored of acknowledgements above the rows' positions. */
  readonly blocks = new Map<string, Map<number, Block>>();

  /** With `queue`, members share single messages. */
  constructor(
    seed: number,
    weather?: Weather,
    readonly queue?: QueueConfig,
  ) {
    this.random = new Random(seed);
    this.weather = weather ?? drawWeather(this.random);
    this.ledger = new Ledger(() => this.now);
  }

  after(ms: number, run: () => void): void {
    this.tasks.push({ atMs: this.now + Math.max(0, Math.ceil(ms)), order: ++this.orders, run });
  }

  run(ms: number): void {
    const untilMs = this.now + ms;
    for (;;) {
      let next: Task | undefined;
      for (const task of this.tasks) {
        if (next === undefined || task.atMs < next.atMs || (task.atMs === next.atMs && task.order < next.order))
          next = task;
      }
      if (next === undefined || next.atMs > untilMs) break;
      this.tasks.splice(this.tasks.indexOf(next), 1);
      this.now = Math.max(this.now, next.atMs);
      next.run();
    }
    this.now = untilMs;
  }

  /** Loses messages by kind. */
  isLost: (message: FromLeader | ToLeader) => boolean = () => false;

  /** Carries a message, or not, or twice. */
  carry(message: FromLeader | ToLeader, deliver: () => void): void {
    if (this.isLost(message)) return;
    const { lost, doubled, stalls, maxMs, stallMs } = this.weather;
    for (let copies = this.random.chance(doubled) ? 2 : 1; copies > 0; copies--) {
      if (this.random.chance(lost)) continue;
      this.after(this.random.between(0, this.random.chance(stalls) ? stallMs : maxMs), deliver);
    }
  }

  publish(path: string, count: number): void {
    const known = this.logs.get(path);
    if (known?.isClosed) return;
    const log = known ?? { generation: ++this.generations, length: 0, isClosed: false };
    this.logs.set(path, log);
    log.length += count;
    this.ledger.published(nameOf(path, log), log.length);
    for (const leader of this.leaders) known === undefined ? leader.find() : leader.step({ type: "woken", path });
    for (const member of this.members) member.deliver();
  }

  close(path: string): void {
    this.logs.get(path)!.isClosed = true;
    for (const leader of this.leaders) leader.find();
  }

  delete(path: string): void {
    this.ledger.deleted(nameOf(path, this.logs.get(path)!));
    this.logs.delete(path);
    for (const leader of this.leaders) leader.lose(path);
  }

  audit(): void {
    const stored = new Map<string, number>();
    for (const [path, { at }] of this.rows) stored.set(nameOf(path, at), at.seq);
    this.ledger.audit((stream) => stored.get(stream) ?? 0);
  }

  /** The registry: finds the leader, or becomes one. */
  wanted(from: BorrowerAddress, message: ToLeader): void {
    const { owner } = this;
    if (owner !== undefined && this.now < owner.claimUntilMs) this.carry(message, () => owner.told(from, message));
    else if (message.type === "leader_wanted") this.lead().told(from, message);
  }

  private lead(): TestLeader {
    const leader = new TestLeader(this, ++this.terms);
    this.owner = leader;
    this.leaders.add(leader);
    return leader;
  }

  join(name: string, pace?: Partial<Pace>): TestMember {
    const member = new TestMember(this, name, { processMs: 20, stalls: 0, refusals: 0, credit: 5, ...pace });
    this.members.add(member);
    return member;
  }

  toBorrower(to: BorrowerAddress, leader: LeaderAddress, message: FromLeader): void {
    this.carry(message, () => {
      for (const member of this.members) if (member.id === to.id) member.step({ type: "told", leader, message });
    });
  }
}
