/**
 * The rolls of all streams: keeps them in step with the pointers of sessions, and removes the subscriptions to a stream that has
 * ended. The service enrolls and strikes; the sweeper reconciles; the service passes on the ends of streams.
 *
 * Removing subscriptions is the only thing that Live writes once per subscriber. Up to `inlineRemovals` subscribers it happens at
 * once; beyond that, in a queue, one stream after the other, so that the end of a large stream delays nothing else. The queue is
 * a hint: the roll itself says what is left to do, and the sweep does it after a crash.
 *
 * Invariants: a removal names the stream that ended, so it never removes a subscription to a later stream at the same path.
 */
import type { World } from "../core/world.ts";
import type { Engine, Entity, RowKey } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { Streams } from "../streams/service.ts";
import { followsOf } from "../streams/state.ts";
import type { LiveLimits } from "./defaults.ts";
import { inBatches } from "./in-batches.ts";
import type { LiveMeter } from "./meter.ts";
import { unsubscribeRule } from "./pointer-rules.ts";
import { checkedRule, type Enrolled, enrollRule, strikeRule } from "./roll-rules.ts";
import type { SessionPort } from "./session-port.ts";
import { LIVE_FOLLOWER, LIVE_ROW, pointerTable, ROLL_ROW, rollEntity, rollTable, subscriberTable } from "./state.ts";

export interface RollParts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly world: World;
  readonly streams: Streams;
  readonly sessions: SessionPort;
  readonly limits: LiveLimits;
  readonly meter: LiveMeter;
  readonly report: (what: string, fault: unknown) => void;
}

interface Ended {
  readonly project: string;
  readonly stream: string;
  /** By the monotonic clock. */
  readonly sinceMs: number;
}

export class Rolls {
  private readonly queue: Ended[] = [];
  private working: Promise<void> | undefined;
  /** Removals outside the queue that are not done. */
  private readonly underway = new Set<Promise<void>>();
  private isStopped = false;

  constructor(private readonly parts: RollParts) {}

  /** Ended streams whose subscriptions wait to be removed. */
  get queued(): number {
    return this.queue.length;
  }

  /** How long the first of them has waited. */
  get lagSeconds(): number {
    const [first] = this.queue;
    return first === undefined ? 0 : this.secondsSince(first.sinceMs);
  }

  private secondsSince(sinceMs: number): number {
    return (this.parts.world.monotonicMs() - sinceMs) / 1_000;
  }

  async enroll(project: string, stream: string, enrolled: Enrolled): Promise<void> {
    const { keepers, limits } = this.parts;
    const keys = [ROLL_ROW, subscriberTable.at(enrolled.session)];
    await keepers.submit(rollEntity(project, stream), keys, (view, now) =>
      enrollRule(view, now, enrolled, limits.reconcileMs),
    );
  }

  async strike(project: string, stream: string, ended: readonly Enrolled[]): Promise<void> {
    if (ended.length === 0) return;
    const keys: RowKey[] = [ROLL_ROW, ...ended.map(({ session }) => subscriberTable.at(session))];
    await this.parts.keepers.submit(rollEntity(project, stream), keys, (view) => strikeRule(view, ended));
  }

  async count(project: string, stream: string): Promise<number> {
    const { rows } = await this.parts.engine.load(rollEntity(project, stream), [ROLL_ROW]);
    return rows[0] === undefined ? 0 : rollTable.decode(rows[0]).count;
  }

  /** A stream that tabs followed has ended. */
  streamEnded(project: string, stream: string): Promise<void> {
    return this.tracked(() => this.removeOrQueue(project, stream));
  }

  /** A removal that a stop waits for. After the stop there is none: the sweep of a later start does it. */
  private async tracked(remove: () => Promise<void>): Promise<void> {
    if (this.isStopped) return;
    const removal = remove();
    this.underway.add(removal);
    try {
      await removal;
    } finally {
      this.underway.delete(removal);
    }
  }

  private async removeOrQueue(project: string, stream: string): Promise<void> {
    const { world, limits, meter } = this.parts;
    const ended = { project, stream, sinceMs: world.monotonicMs() };
    const count = await this.count(project, stream);
    if (count === 0) return;
    if (count <= limits.inlineRemovals) {
      meter.removals.inline += count;
      await this.removeAll(ended);
      return;
    }
    meter.removals.queued += count;
    this.queue.push(ended);
    this.working ??= this.work();
  }

  private async work(): Promise<void> {
    for (let next = this.queue.shift(); next !== undefined && !this.isStopped; next = this.queue.shift()) {
      try {
        await this.removeAll(next);
      } catch (fault) {
        this.parts.report(`removing the subscriptions to ${next.stream} failed; the sweep repeats it`, fault);
      }
    }
    this.working = undefined;
  }

  /** The roll keeps what is not done. */
  async stop(): Promise<void> {
    this.isStopped = true;
    await Promise.allSettled([...this.underway, this.working]);
  }

  private async removeAll({ project, stream, sinceMs }: Ended): Promise<void> {
    for (let after: string | undefined = ""; after !== undefined && !this.isStopped; ) {
      after = await this.reconcile(project, stream, after);
    }
    this.parts.meter.removalSeconds.add(this.secondsSince(sinceMs));
  }

  /** Compares a part of the roll with its sessions, and stores where to continue. */
  async sweep({ project, id: stream }: Entity): Promise<void> {
    const { engine, keepers, limits } = this.parts;
    const { rows } = await engine.load(rollEntity(project, stream), [ROLL_ROW]);
    const checked = rows[0] === undefined ? "" : rollTable.decode(rows[0]).checked;
    const next = await this.reconcile(project, stream, checked);
    await keepers.submit(rollEntity(project, stream), [ROLL_ROW], (view, now) =>
      checkedRule(view, next ?? "", next === undefined ? now + limits.reconcileMs : now),
    );
  }

  /**
   * Strikes the sessions of one page whose subscription has ended, and ends those whose stream is gone. Returns the last session
   * of the page; undefined at the end of the roll.
   */
  private async reconcile(project: string, stream: string, after: string): Promise<string | undefined> {
    const { engine, limits, meter, streams } = this.parts;
    const page = await engine.rows(rollEntity(project, stream), subscriberTable.name, after, limits.pageRows);
    const rows = page.map(({ key, value }) => ({ session: key, ...subscriberTable.decode(value) }));
    const named = await inBatches(rows, limits.batch, ({ session }) => this.nameFollowed(project, session, stream));
    // Read after the pointers: a pointer with another name is then into an earlier stream, never into a later one.
    const described = await streams.describe(project, stream);
    const name = described.kind === "live" ? followsOf(described.meta)?.[LIVE_FOLLOWER] : undefined;
    const ended = rows.map((row, i) => ({ ...row, name: named[i] })).filter((row) => row.name !== name || !row.name);
    await inBatches(ended, limits.batch, (row) => this.unfollow(project, row.session, stream, row.name));
    meter.removals.reconciled += ended.length;
    await this.strike(project, stream, ended);
    return page.length < limits.pageRows ? undefined : page.at(-1)?.key;
  }

  /** The name of the stream that the session's pointer leads into; undefined without a pointer. */
  private async nameFollowed(project: string, session: string, stream: string): Promise<string | undefined> {
    const { engine, sessions } = this.parts;
    const { rows } = await engine.load(sessions.entity(project, session), [pointerTable.at(stream)]);
    return rows[0] && pointerTable.decode(rows[0]).name;
  }

  /** A tab has found that its stream is gone. */
  streamGone(project: string, session: string, stream: string, name: string): Promise<void> {
    return this.tracked(() => this.unfollow(project, session, stream, name));
  }

  /** Removes a session's subscription to the stream of this name, which has ended. */
  async unfollow(project: string, session: string, stream: string, name: string | undefined): Promise<void> {
    if (name === undefined) return;
    const keys = [LIVE_ROW, pointerTable.at(stream)];
    await this.parts.sessions.use(project, session, "server", keys, (view) => unsubscribeRule(view, stream, { name }));
  }
}
