/**
 * A leader at work on this node: it runs the leader's rules (`leader-rules.ts`) for one term of ownership, stores what they ask
 * for under that ownership, and finds the streams of its group's filter. The registry starts one when it gains a group.
 *
 * Invariants: it acts only while its term is held. It reads the group's rows after it has begun its term, so that no commit of an
 * earlier leader can follow. One timer is set at a time. A seek or a deletion ends it; the next leader reads what is stored.
 */
import { ZERO } from "@sluice/protocol";
import type { Cancel, World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { FENCED } from "../engine/keeper.ts";
import { isWorkOursAlone } from "../engine/other-nodes.ts";
import { rowsOf } from "../engine/table-rows.ts";
import type { Term } from "../engine/term.ts";
import type { Block } from "../leases/block-row.ts";
import { blockOfKey, blockTable } from "../leases/block-table.ts";
import type { Streams } from "../streams/service.ts";
import type { Carrier } from "./carrier.ts";
import { type GroupTimers, graceMs } from "./defaults.ts";
import { beginTermRule, dropBlocksRule, endTermRule, storeRule } from "./group-rules.ts";
import { plainStreams, startIn } from "./group-start.ts";
import { GroupHolds } from "./holds.ts";
import { leaderDueMs, leaderStep } from "./leader-rules.ts";
import {
  type FoundStream,
  isDone,
  type Leader,
  type LeaderEffect,
  type LeaderEvent,
  newLeader,
  type StreamRow,
} from "./leader-state.ts";
import type { BorrowerAddress, ToLeader } from "./messages.ts";
import { QueueIo } from "./queue-io.ts";
import { type GroupMeta, META, metaTable, streamTable } from "./state.ts";
import { groupOfId } from "./topic.ts";
import type { Topics } from "./topics.ts";

export interface LeaderParts {
  readonly engine: Engine;
  readonly world: World;
  readonly streams: Streams;
  readonly topics: Topics;
  readonly carrier: Carrier;
  readonly timers: GroupTimers;
  /** Rows that are read at a time, and streams that are looked at concurrently. */
  readonly pageRows: number;
  readonly batch: number;
  /** How often the leader looks whether its group was moved or deleted. */
  readonly checkMs: number;
  /** Of a queue: how long a message is leased, unless its group says otherwise. */
  readonly leaseMs: number;
  readonly readBytes: number;
  readonly retryMs: number;
  readonly report: (what: string, fault: unknown) => void;
}

/** Messages that wait until the leader has read its rows; the rest is sent again. */
const MAX_EARLY = 1_000;

export class LeaderProcess {
  private state: Leader | undefined;
  private meta: GroupMeta | undefined;
  private readonly holds: GroupHolds;
  /** Of a queue. */
  private queueIo: QueueIo | undefined;
  /** Of a queue: the blocks that are stored, until their stream is found. */
  private blocks = new Map<string, Map<number, Block>>();
  private early: LeaderEvent[] = [];
  private isOver = false;
  private unfollow: () => void = () => {};
  private cancelCheck: Cancel | undefined;
  private timer: Cancel | undefined;
  private timerAtMs = Number.POSITIVE_INFINITY;
  /** How far dates were ahead of the monotonic clock when the leader began. */
  private readonly aheadMs: number;

  /**
   * `isFirstHere`: this process has led the group never before, or left it without members. `end` is called once, when the
   * leader ends by itself.
   */
  constructor(
    private readonly parts: LeaderParts,
    private readonly term: Term,
    private readonly isFirstHere: boolean,
    private readonly end: () => void,
  ) {
    this.aheadMs = parts.engine.now() - parts.world.monotonicMs();
    this.holds = new GroupHolds(parts, term.entity);
    this.begin().catch((fault) => {
      parts.report(`the leader of ${term.entity.key} failed to begin; another attempt follows`, fault);
      this.stop();
      end();
    });
  }

  /** For the admin routes; undefined until the leader has read its rows. */
  get leader(): Leader | undefined {
    return this.state;
  }

  get hasMembers(): boolean {
    return this.state !== undefined && this.state.members.size > 0;
  }

  told(from: BorrowerAddress, message: ToLeader): void {
    this.step({ type: "told", from, message });
  }

  /** Ends without a word: members find the next leader when their pings are not answered. */
  stop(): void {
    this.isOver = true;
    this.holds.stop();
    this.queueIo?.stop();
    this.unfollow();
    this.timer?.();
    this.cancelCheck?.();
  }

  /** Ends in order: members are told to look for another leader at once. */
  dismiss(): void {
    for (const member of this.state?.members.values() ?? []) this.send(member, { type: "invalidate" });
    this.stop();
  }

  /**
   * A date, because delays of messages are stored as dates. It runs by the monotonic clock, as the time of borrowers does: a clock
   * that is set forward would evict members that still deliver.
   */
  private get now(): number {
    return Math.floor(this.parts.world.monotonicMs() + this.aheadMs);
  }

  private get isServing(): boolean {
    return !this.isOver && this.term.isHeld();
  }

  private async begin(): Promise<void> {
    const { engine, topics, timers, pageRows } = this.parts;
    const begun = await this.term.submit([META], (view) => beginTermRule(view, engine.node));
    if (begun.kind === "absent") this.finish();
    if (begun.kind !== "begun" || !this.isServing) return;
    const { meta, wasClean } = begun;
    const rows = new Map<string, StreamRow>();
    for await (const { key, value } of rowsOf(engine, this.term.entity, streamTable, pageRows)) {
      const { edition, ...row } = value;
      if (edition === meta.edition) rows.set(key, row);
    }
    const { project, id } = this.term.entity;
    const { mode, filter } = groupOfId(id);
    if (mode === "queue") await this.loadBlocks(meta, rows);
    if (!this.isServing) return;
    this.meta = meta;
    const { leaseMs = this.parts.leaseMs, maxAttempts, deadLetter } = meta.config;
    // A borrower counts a lease from its last ping, so a shorter one could be over before it arrives, again and again.
    const queue = mode === "queue" ? { leaseMs: Math.max(leaseMs, graceMs(timers)), maxAttempts } : undefined;
    if (queue) this.queueIo = new QueueIo(this.parts, this.term.entity, deadLetter, (event) => this.step(event));
    // Borrowers of an earlier leader may be left on other nodes, or on this one after a loss of ownership.
    const isAlone = wasClean || (this.isFirstHere && isWorkOursAlone(engine));
    const grantsFromMs = isAlone ? this.now : this.now + graceMs(timers);
    this.state = newLeader(meta.term, rows, this.now, grantsFromMs, queue);
    this.unfollow = topics.follow(project, filter, {
      found: (paths) => void this.found(paths),
      lost: (paths) => this.lost(paths),
      relisted: (paths) => void this.found(paths.filter((path) => this.isToBeLookedAt(path))),
    });
    this.checkLater();
    const { early } = this;
    this.early = [];
    for (const event of early) this.step(event);
    this.arm();
  }

  /** Blocks of an earlier edition, or of a stream that was deleted, are of no use any more. */
  private async loadBlocks({ edition }: GroupMeta, rows: ReadonlyMap<string, StreamRow>): Promise<void> {
    const { engine, pageRows } = this.parts;
    const stale: string[] = [];
    for await (const { key, value } of rowsOf(engine, this.term.entity, blockTable, pageRows)) {
      const block = blockOfKey(key);
      const known = this.blocks.get(block.path) ?? new Map();
      if (block.edition === edition && rows.has(block.path))
        this.blocks.set(block.path, known.set(block.number, value));
      else stale.push(key);
    }
    for (let at = 0; at < stale.length; at += pageRows) {
      await this.term.submit([], () => dropBlocksRule(stale.slice(at, at + pageRows)));
    }
  }

  /** A seek or a deletion must not wait for the next progress. */
  private checkLater(): void {
    const { world, engine, checkMs } = this.parts;
    this.cancelCheck = world.after(checkMs, async () => {
      try {
        const { rows } = await engine.load(this.term.entity, [META]);
        const meta = rows[0] && metaTable.decode(rows[0]);
        if (!this.isServing) return;
        // A group that was deleted and declared anew has the first edition again, but no term yet.
        const isSame = meta?.edition === this.meta!.edition && meta.term === this.meta!.term;
        if (!isSame) await this.leaveChanged();
      } catch {
        // The store does not answer, which renewals of the claim notice too.
      }
      if (this.isServing) this.checkLater();
    });
  }

  /** After a seek or a deletion. A deletion released the holds, but this leader may have moved one before it learned of that. */
  private async leaveChanged(): Promise<void> {
    const { engine, report } = this.parts;
    const { entity } = this.term;
    const { paths } = this.holds;
    this.leave();
    try {
      const { rows } = await engine.load(entity, [META]);
      if (rows[0] === undefined) await this.holds.release(paths);
    } catch (fault) {
      report(`releasing what ${entity.key} held failed; a group of this name that is deleted again releases it`, fault);
    }
  }

  private leave(): void {
    this.dismiss();
    this.end();
  }

  private step(event: LeaderEvent): void {
    if (!this.isServing) return;
    if (this.state === undefined) {
      if (this.early.length < MAX_EARLY) this.early.push(event);
      return;
    }
    for (const effect of leaderStep(this.state, event, this.now, this.parts.timers)) this.perform(effect);
    this.arm();
  }

  private perform(effect: LeaderEffect): void {
    if (effect.kind === "send") this.send(effect.to, effect.message);
    else if (effect.kind === "store") void this.store(effect.rows);
    else if (effect.kind === "read") this.queueIo?.read(effect.path, effect.after);
    else if (effect.kind === "bury") this.queueIo?.bury(effect);
    else if (effect.kind === "rest") this.queueIo?.rest();
    else void this.release();
  }

  private send({ id, node }: BorrowerAddress, message: Extract<LeaderEffect, { kind: "send" }>["message"]): void {
    const { carrier } = this.parts;
    const leader = { node: carrier.node, term: this.state!.term };
    carrier.send(node, { groups: 1, group: this.term.entity.key, to: id, leader, message });
  }

  private async store(rows: ReadonlyMap<string, StreamRow | undefined>): Promise<void> {
    try {
      const outcome = await this.term.submit([META], (view) => storeRule(view, this.meta!, rows));
      if (outcome === "changed") await this.leaveChanged();
      else if (outcome !== FENCED) {
        for (const [path, row] of rows) row === undefined ? this.holds.forget(path) : this.holds.moved(path, row.at);
        this.step({ type: "stored" });
      }
    } catch (fault) {
      if (this.isServing)
        this.parts.report(`storing the progress of ${this.term.entity.key} failed; it is repeated`, fault);
      this.step({ type: "store_failed" });
    }
  }

  private async release(): Promise<void> {
    const { term } = this.state!;
    if (!this.hasMembers) await this.term.submit([META], (view) => endTermRule(view, term)).catch(() => undefined);
    this.leave();
  }

  private finish(): void {
    this.stop();
    this.end();
  }

  /** The look at a stream may have failed, and one that is done may have been deleted and created anew unnoticed. */
  private isToBeLookedAt(path: string): boolean {
    const stream = this.state?.streams.get(path);
    return stream === undefined || isDone(stream);
  }

  private lost(paths: readonly string[]): void {
    const shards = new Set(paths.map((path) => `${path}/`));
    const gone = [...(this.state?.streams.keys() ?? [])].filter((path) => {
      const topic = path.lastIndexOf("/$shard/");
      return topic > 0 && shards.has(path.slice(0, topic + 1));
    });
    this.step({ type: "lost", paths: [...paths, ...gone] });
  }

  /** Looks where the group begins in each stream that it has no row of. A topic is consumed as its shards. */
  private async found(paths: readonly string[]): Promise<void> {
    const { batch, report } = this.parts;
    for (let at = 0; at < paths.length && this.isServing; at += batch) {
      try {
        const found = await Promise.all(paths.slice(at, at + batch).map((path) => this.look(path)));
        this.step({ type: "found", streams: found.flat() });
      } catch (fault) {
        if (this.isServing)
          report(`looking at streams of ${this.term.entity.key} failed; the next listing repeats it`, fault);
      }
    }
  }

  private async look(path: string): Promise<readonly FoundStream[]> {
    const { streams } = this.parts;
    const found: FoundStream[] = [];
    for (const one of await plainStreams(streams, this.term.entity.project, path)) {
      const from = this.state!.streams.has(one.path) ? ZERO : await startIn(streams, one, this.meta!.start);
      // The hold comes before the first read, so that what retention has taken by then was taken before the group began.
      if (one.isTrimmed) await this.holds.begin(one.path, this.state!.streams.get(one.path)?.stored ?? from);
      const blocks = this.blocks.get(one.path);
      this.blocks.delete(one.path);
      found.push({ path: one.path, from, end: one.end, isHeld: one.isTrimmed, blocks });
    }
    return found;
  }

  private arm(): void {
    if (!this.isServing || this.state === undefined) return;
    const dueMs = leaderDueMs(this.state);
    if (dueMs >= this.timerAtMs) return;
    this.timer?.();
    this.timerAtMs = dueMs;
    this.timer = this.parts.world.after(Math.max(0, dueMs - this.now), () => {
      this.timerAtMs = Number.POSITIVE_INFINITY;
      this.step({ type: "tick" });
      this.arm();
    });
  }
}
