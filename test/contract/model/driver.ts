/**
 * Runs operations on one engine and reports the observable results, independent of the engine's own numbers. Revs and owners are
 * counted in the order of their first appearance; generations are "own", "older" or "newer". Two engines agree if their drivers
 * report the same.
 *
 * Invariants: the driver itself asserts what concerns one engine alone (a rev never returns, an offered generation is the
 * greatest).
 */
import { ZERO } from "@sluice/protocol";
import { expect } from "vitest";
import type {
  CommitAt,
  Effect,
  Engine,
  Entity,
  Head,
  Owner,
  Snapshot,
} from "../../../packages/server/src/engine/contract.ts";
import type { OpenedEngine } from "../suite/fixture.ts";
import {
  type CommitPlan,
  type EffectPlan,
  ENTITIES,
  LONGEST_MS,
  type Operation,
  type PositionPlan,
  type RoomPlan,
  TABLES,
} from "./operations.ts";
import { filled, foresee, later, messageOf, pick, positionOf, scribble } from "./planned.ts";
import { shownBytes, shownHead, shownPage, shownRows } from "./shown.ts";

/** The driver's memory of an entity, by which it reports relative numbers. */
interface Memory {
  readonly revs: number[];
  readonly owners: Owner[];
  readonly generations: Set<number>;
  highestGeneration: number;
}

const WIDE = 1 << 30;
const FAR_MS = 600_000;

export class Driver {
  private engine: Engine;
  private readonly memories = ENTITIES.map(
    (): Memory => ({ revs: [], owners: [], generations: new Set(), highestGeneration: 0 }),
  );
  private readonly seenRevs = new Map<string, string>();
  private readonly seenOwners = new Map<string, number>();

  /** `isTimeless`: for engines whose time is real. All times of such a run lie so far ahead that nothing expires during it. */
  constructor(
    private readonly opened: OpenedEngine,
    private readonly isTimeless: boolean,
  ) {
    this.engine = opened.engine;
  }

  private ms(plannedMs: number): number {
    return this.isTimeless && plannedMs > 0 ? FAR_MS : plannedMs;
  }

  private async advance(ms: number): Promise<void> {
    if (!this.isTimeless) await this.opened.advance(ms);
  }

  async run(operation: Operation): Promise<unknown> {
    const { engine } = this;
    switch (operation.op) {
      case "commit":
        return this.together([operation.plan]);
      case "together":
        return this.together(operation.plans);
      case "rivals":
        return this.rivals(operation.plan, operation.count);
      case "load":
        return this.load(operation.e, operation.keys);
      case "read":
        return this.read(operation.e, operation.after, operation.room);
      case "rows":
        return shownRows(await engine.rows(ENTITIES[operation.e]!, operation.table, operation.after, operation.limit));
      case "list": {
        const { project, kind } = ENTITIES[operation.e]!;
        return engine.list(project, kind, operation.prefix, operation.after, operation.limit);
      }
      case "projects":
        return [...(await engine.projects(ENTITIES[operation.e]!.kind))].sort();
      case "due":
        return this.due();
      case "claim": {
        const { owners } = this.memories[operation.e]!;
        const held = operation.held === undefined ? undefined : pick(owners, operation.held);
        const result = await engine.claim(ENTITIES[operation.e]!, operation.node, this.ms(operation.ttlMs), held);
        if (result.kind === "held") return this.isTimeless ? { ...result, untilMs: FAR_MS } : result;
        owners.push(result);
        return this.shownOwner(result);
      }
      case "release": {
        const owner = pick(this.memories[operation.e]!.owners, operation.owner);
        return owner && engine.release(ENTITIES[operation.e]!, owner);
      }
      case "hit":
        return this.hit(operation.key, operation.limit, this.ms(operation.windowMs));
      case "advance":
        return this.advance(operation.ms);
      case "restart":
        return this.restart();
    }
  }

  async restart(): Promise<void> {
    await this.advance(LONGEST_MS);
    if (this.opened.reopen) this.engine = await this.opened.reopen();
  }

  /** The whole state. */
  async dump(): Promise<unknown> {
    const entities = [];
    for (const [i, e] of ENTITIES.entries()) {
      const tables = [];
      for (const table of TABLES) tables.push(shownRows(await this.engine.rows(e, table, "", 1_000)));
      const listed = await this.engine.list(e.project, e.kind, "", "", 1_000);
      entities.push({
        ...(await this.load(i, [""])),
        page: shownPage(await this.engine.read(e, ZERO, WIDE)),
        tables,
        listed,
      });
    }
    return { entities, due: await this.due() };
  }

  private async together(plans: readonly CommitPlan[]): Promise<unknown[]> {
    const commits = [];
    for (const plan of plans) commits.push(await this.prepare(plan));
    const results = await Promise.all(commits.map((commit) => commit()));
    return results.map((show) => show());
  }

  private async rivals(plan: CommitPlan, count: number): Promise<string[]> {
    const results = (await this.together(Array<CommitPlan>(count).fill(plan))) as { kind: string }[];
    return results.map(({ kind }) => kind).sort();
  }

  /**
   * Loads the state that the commit builds on, so that the returned call starts it at once. A second call records and shows its
   * result, because concurrent commits may resolve in any order.
   */
  private async prepare(plan: CommitPlan): Promise<() => Promise<() => unknown>> {
    const e = ENTITIES[plan.e]!;
    const memory = this.memories[plan.e]!;
    const snapshot = await this.snapshot(plan.e, []);
    const rev = memory.revs.at(-1 - plan.age) ?? snapshot.rev;
    const owner = plan.owner === undefined ? undefined : pick(memory.owners, plan.owner);
    const keys = plan.keys.map((key) => ({ table: TABLES[0], key }));
    const planned = await this.effects(snapshot, plan.effects);
    return async () => {
      const { result, effects } = await this.commit(e, { rev, owner, keys }, planned, snapshot.nextGeneration);
      scribble(effects);
      return () => {
        if (result.kind === "fenced") return result;
        if (result.kind === "conflict") return { kind: result.kind, ...this.shownSnapshot(plan.e, result.snapshot) };
        this.noteRev(plan.e, result.rev);
        for (const effect of effects) if (effect.op === "begin") this.noteGeneration(plan.e, effect.generation);
        if (result.head.generation > 0) expect(result.head.generation).toBe(memory.highestGeneration);
        return { kind: result.kind, rev: this.shownRev(plan.e, result.rev), head: shownHead(result.head) };
      };
    };
  }

  /**
   * An engine may refuse a begin because another entity was destroyed since its generation was offered: it need not remember the
   * generation of each destroyed entity. A keeper then runs again with a newer offer, and so does this.
   */
  private async commit(e: Entity, at: CommitAt, planned: readonly Effect[], offered: number) {
    let effects = planned;
    for (let attempt = 0; ; attempt++) {
      const result = await this.engine.commit(e, at, effects);
      if (result.kind !== "conflict" || result.snapshot.rev !== at.rev) return { result, effects };
      expect(attempt).toBeLessThan(ENTITIES.length);
      effects = planned.map((effect) => later(effect, offered, result.snapshot.nextGeneration - offered));
    }
  }

  private async effects({ head, nextGeneration }: Snapshot, plans: readonly EffectPlan[]): Promise<Effect[]> {
    const effects: Effect[] = [];
    let now = head;
    for (const plan of plans) {
      const effect = await this.effect(plan, now, Math.max(nextGeneration, now.generation + 1));
      if (effect === undefined) continue;
      effects.push(effect);
      now = foresee(now, effect);
    }
    return effects;
  }

  /** Undefined if the plan makes no sense on this head: no message can be appended to a log that was never begun. */
  private async effect(plan: EffectPlan, head: Head, nextGeneration: number): Promise<Effect | undefined> {
    switch (plan.op) {
      case "begin": {
        if (head.generation > 0 && !plan.anew) return undefined;
        if (plan.from === "zero")
          return { op: "begin", generation: nextGeneration, at: { generation: 0, seq: plan.seq } };
        if (plan.from === "own")
          return { op: "begin", generation: nextGeneration, at: { generation: nextGeneration, seq: 0 } };
        const source = await this.engine.load(ENTITIES[plan.from]!, []);
        const at = source.head.last;
        return { op: "begin", generation: Math.max(nextGeneration, at.generation + 1), at };
      }
      case "append":
        if (head.generation === 0) return undefined;
        return { op: "append", messages: plan.messages.map(messageOf) };
      case "put":
        return { op: "put", table: plan.table, key: plan.key, value: filled(plan.size, plan.fill) };
      case "trim": {
        const left = head.last.seq - head.start.seq;
        if (left === 0) return undefined;
        const seq = head.start.seq + Math.ceil(left * plan.share);
        const through = { generation: head.generation, seq };
        // Only the engine knows the bytes there. Any number serves the comparison, because the engine keeps it as given.
        return { op: "trim", through, bytes: seq * 7 };
      }
      case "remind":
        return { op: "remind", atMs: plan.inMs === null ? null : this.engine.now() + this.ms(plan.inMs) };
      default:
        return plan;
    }
  }

  private async snapshot(e: number, keys: readonly string[]): Promise<Snapshot> {
    const asked = keys.map((key) => ({ table: TABLES[0], key }));
    const snapshot = await this.engine.load(ENTITIES[e]!, asked);
    this.noteRev(e, snapshot.rev);
    expect(snapshot.nextGeneration).toBeGreaterThan(this.memories[e]!.highestGeneration);
    return snapshot;
  }

  private async load(e: number, keys: readonly string[]) {
    return this.shownSnapshot(e, await this.snapshot(e, keys));
  }

  private async read(e: number, plan: PositionPlan, room: RoomPlan): Promise<unknown> {
    const { head } = await this.engine.load(ENTITIES[e]!, []);
    const after = positionOf(plan, head);
    const { messages } = await this.engine.read(ENTITIES[e]!, after, WIDE);
    let maxBytes = room.more;
    for (const { payload } of messages.slice(0, room.messages)) maxBytes += payload.length;
    return shownPage(await this.engine.read(ENTITIES[e]!, after, Math.max(0, maxBytes)));
  }

  private async hit(key: string, limit: number, windowMs: number) {
    const hit = await this.engine.hit(key, limit, windowMs);
    return hit.kind === "limited" && this.isTimeless ? { ...hit, retryAfterMs: FAR_MS } : hit;
  }

  private async due(): Promise<string[]> {
    const found: Entity[] = [];
    for (let shard = 0; shard < this.engine.shards; shard++) found.push(...(await this.engine.due(shard, 100)));
    return found.map(({ key }) => key).sort();
  }

  private shownSnapshot(e: number, snapshot: Snapshot) {
    this.noteRev(e, snapshot.rev);
    const { rev, head, rows } = snapshot;
    return { rev: this.shownRev(e, rev), head: shownHead(head), rows: rows.map((value) => value && shownBytes(value)) };
  }

  private noteRev(e: number, rev: number): void {
    const { revs } = this.memories[e]!;
    if (revs.at(-1) === rev) return;
    // 0 returns whenever the entity is destroyed; every other rev means one state for good.
    if (rev !== 0) expect(revs).not.toContain(rev);
    revs.push(rev);
  }

  /** Several rivals that each begin and destroy may succeed, and their results may arrive in another order than their commits. */
  private noteGeneration(e: number, generation: number): void {
    const memory = this.memories[e]!;
    expect(memory.generations.has(generation)).toBe(false);
    memory.generations.add(generation);
    memory.highestGeneration = Math.max(memory.highestGeneration, generation);
  }

  private shownRev(e: number, rev: number): string {
    if (rev === 0) return "none";
    const name = `${e} ${rev}`;
    if (!this.seenRevs.has(name)) this.seenRevs.set(name, `rev ${this.seenRevs.size}`);
    return this.seenRevs.get(name)!;
  }

  private shownOwner({ epoch, nonce }: Owner): string {
    const name = `${epoch} ${nonce}`;
    if (!this.seenOwners.has(name)) this.seenOwners.set(name, this.seenOwners.size);
    return `owner ${this.seenOwners.get(name)}`;
  }
}
