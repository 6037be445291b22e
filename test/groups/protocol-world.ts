/**
 * Borrowers and leaders of one group, as their rules alone: a clock, a network that loses, doubles, delays and reorders every
 * message, a store that fails, leaders that die or are replaced unawares, and members that come, stall, leave and die.
 * protocol.test.ts runs it over thousands of seeds, because a run costs milliseconds.
 *
 * Invariants: everything follows from the seed. The checks are those of `ledger.ts`.
 */
import { GROUP_TIMERS, type GroupTimers, graceMs } from "../../packages/server/src/groups/defaults.ts";
import { leaderDueMs, leaderStep } from "../../packages/server/src/groups/leader-rules.ts";
import {
  type Leader,
  type LeaderEvent,
  newLeader,
  type StreamRow,
} from "../../packages/server/src/groups/leader-state.ts";
import type {
  BorrowerAddress,
  FromLeader,
  LeaderAddress,
  ToLeader,
} from "../../packages/server/src/groups/messages.ts";
import { Random } from "../sim/random.ts";
import { Ledger } from "./ledger.ts";
import { type Pace, TestMember } from "./protocol-member.ts";

export const TIMERS: GroupTimers = { ...GROUP_TIMERS, unsubscribeMs: 3_000, drainMs: 3_000 };
const CLAIM_MS = 5_000;
/** A leader stops by itself this long before its claim ends. */
const MARGIN_MS = 500;

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

  constructor(seed: number, weather?: Weather) {
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
    if (known === undefined) for (const leader of this.leaders) leader.find();
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
    const member = new TestMember(this, name, { processMs: 20, stalls: 0, credit: 5, ...pace });
    this.members.add(member);
    return member;
  }

  toBorrower(to: BorrowerAddress, leader: LeaderAddress, message: FromLeader): void {
    this.carry(message, () => {
      for (const member of this.members) if (member.id === to.id) member.step({ type: "told", leader, message });
    });
  }
}

export class TestLeader {
  readonly state: Leader;
  claimUntilMs: number;
  isDead = false;
  /** Cut off from the store: it serves until its claim ends by its own clock. */
  isCutOff = false;
  private timerAtMs = Number.POSITIVE_INFINITY;

  constructor(
    private readonly world: ProtocolWorld,
    readonly term: number,
  ) {
    this.claimUntilMs = world.now + CLAIM_MS;
    const fromMs = term === 1 ? world.now : world.now + graceMs(TIMERS);
    this.state = newLeader(term, world.rows, world.now, fromMs);
    this.renew();
    this.find();
    this.arm();
  }

  get isServing(): boolean {
    return !this.isDead && this.world.now < this.claimUntilMs - MARGIN_MS;
  }

  private renew(): void {
    this.world.after(CLAIM_MS / 3, () => {
      if (!this.isServing) return;
      if (!this.isCutOff) this.claimUntilMs = this.world.now + CLAIM_MS;
      this.renew();
    });
  }

  find(): void {
    const streams = [...this.world.logs].map(([path, { generation, length, isClosed }]) => ({
      path,
      from: { generation: 0, seq: 0 },
      end: isClosed ? { generation, seq: length } : undefined,
    }));
    this.step({ type: "found", streams });
  }

  lose(path: string): void {
    this.step({ type: "lost", paths: [path] });
  }

  told(from: BorrowerAddress, message: ToLeader): void {
    this.step({ type: "told", from, message });
  }

  step(event: LeaderEvent): void {
    if (!this.isServing) return;
    const { world, term, state } = this;
    for (const effect of leaderStep(state, event, world.now, TIMERS)) {
      if (effect.kind === "send") world.toBorrower(effect.to, { node: "n", term }, effect.message);
      else if (effect.kind === "store") this.store(effect.rows);
      else this.release();
    }
    this.arm();
  }

  private store(rows: ReadonlyMap<string, StreamRow | undefined>): void {
    const { world } = this;
    const fails = world.random.chance(world.weather.failedStores);
    world.after(world.random.between(0, 10), () => {
      if (this.isDead) return;
      if (this.isCutOff) {
        world.after(1_000, () => this.step({ type: "store_failed" }));
        return;
      }
      // A failed commit may have happened.
      const isApplied = world.owner === this && (!fails || world.random.chance(0.5));
      if (isApplied)
        for (const [path, row] of rows) row === undefined ? world.rows.delete(path) : world.rows.set(path, row);
      if (world.owner !== this) this.isDead = true;
      else world.after(world.random.between(0, 10), () => this.step({ type: fails ? "store_failed" : "stored" }));
    });
  }

  release(): void {
    this.claimUntilMs = this.world.now;
    this.isDead = true;
    if (this.world.owner === this) this.world.owner = undefined;
  }

  private arm(): void {
    const { world, state } = this;
    const dueMs = leaderDueMs(state);
    if (!this.isServing || dueMs >= this.timerAtMs) return;
    this.timerAtMs = dueMs;
    world.after(dueMs - world.now, () => {
      if (this.timerAtMs === dueMs) this.timerAtMs = Number.POSITIVE_INFINITY;
      this.step({ type: "tick" });
      this.arm();
    });
  }
}
