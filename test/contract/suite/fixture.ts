/**
 * The fixture of the contract suite's behaviors: an engine of its own, its clock, and short ways to commit and to read. `lives`
 * tests durability: it runs the same check on the engine and again after a restart.
 */

import { type Position, ZERO } from "@sluice/protocol";
import { expect } from "vitest";
import type { Awaitable } from "../../../packages/server/src/core/awaitable.ts";
import type { World } from "../../../packages/server/src/core/world.ts";
import type {
  CommitAt,
  Conflict,
  Done,
  Effect,
  Engine,
  Entity,
  LoggedMessage,
  Message,
  RowKey,
  Snapshot,
} from "../../../packages/server/src/engine/contract.ts";
import { entity } from "../../../packages/server/src/engine/contract.ts";

export interface OpenedEngine {
  readonly engine: Engine;
  /** The world of the engine's node. */
  readonly world: World;
  /** Lets the engine's time pass: moves a manual clock, or waits. */
  advance(ms: number): Awaitable<void>;
  /** Sets the clock of the node's machine forward, or back if negative. No time passes. */
  setClock(byMs: number): void;
  /** Closes the engine and opens it again on the same data; absent for engines that forget. */
  reopen?: () => Promise<Engine>;
  /** Opens one more node over the same data, which `close` closes too; absent for engines of one process. */
  openPeer?: () => Promise<Engine>;
  close(): Promise<void>;
}

export type OpenEngine = () => Promise<OpenedEngine>;

/** Declares one behavior; its body gets an engine of its own. */
export type Behavior = (name: string, body: (on: Fixture) => Promise<void>) => void;

const WIDE = 1 << 30;

export class Fixture {
  engine: Engine;

  constructor(private readonly opened: OpenedEngine) {
    this.engine = opened.engine;
  }

  get world(): World {
    return this.opened.world;
  }

  /** Runs the check now and, on an engine that keeps its data, once more after a restart. */
  async lives(check: () => Promise<void>): Promise<void> {
    await check();
    if (await this.reopen()) await check();
  }

  /** False on an engine that forgets. */
  async reopen(): Promise<boolean> {
    if (this.opened.reopen === undefined) return false;
    this.engine = await this.opened.reopen();
    return true;
  }

  /** Undefined on an engine of one process. */
  async openPeer(): Promise<Engine | undefined> {
    return this.opened.openPeer?.();
  }

  async advance(ms: number): Promise<void> {
    await this.opened.advance(ms);
  }

  setClock(byMs: number): void {
    this.opened.setClock(byMs);
  }

  async load(e: Entity, keys: readonly RowKey[] = []): Promise<Snapshot> {
    return this.engine.load(e, keys);
  }

  /** Commits onto the newest rev and expects success. */
  async commit(e: Entity, effects: readonly Effect[], at: Partial<CommitAt> = {}): Promise<Done> {
    const rev = at.rev ?? (await this.engine.load(e, [])).rev;
    return done(await this.engine.commit(e, { ...at, rev }, effects));
  }

  /** Begins an empty log in the generation that the engine offers, which is returned. */
  async begin(e: Entity): Promise<number> {
    const { rev, nextGeneration: generation } = await this.load(e);
    await this.commit(e, [{ op: "begin", generation, at: { generation, seq: 0 } }], { rev });
    return generation;
  }

  async append(e: Entity, ...payloads: (string | Uint8Array)[]): Promise<Done> {
    return this.commit(e, [append(...payloads)]);
  }

  /** Every message after a position, read in one page. */
  async messages(e: Entity, after: Position = ZERO): Promise<readonly LoggedMessage[]> {
    const page = await this.engine.read(e, after, WIDE);
    expect(page.atTail).toBe(true);
    return page.messages;
  }

  async payloads(e: Entity, after: Position = ZERO): Promise<string[]> {
    return (await this.messages(e, after)).map(({ payload }) => text(payload));
  }

  async row(e: Entity, table: string, key: string): Promise<string | undefined> {
    const [value] = (await this.load(e, [{ table, key }])).rows;
    return value && text(value);
  }

  /** Keys of a table, over all pages. */
  async rowKeys(e: Entity, table: string, pageSize = 1_000): Promise<string[]> {
    const keys: string[] = [];
    for (;;) {
      const after = keys.at(-1) ?? "";
      const page = await this.engine.rows(e, table, after, pageSize);
      expect(page.map(({ key }) => key)).not.toContain(after);
      keys.push(...page.map(({ key }) => key));
      if (page.length < pageSize) return keys;
    }
  }

  /** Ids of a kind, over all pages. */
  async ids(project: string, kind: string, prefix = "", pageSize = 1_000): Promise<string[]> {
    const ids: string[] = [];
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page = await this.engine.list(project, kind, prefix, after, pageSize);
      expect(page.ids.length).toBeLessThanOrEqual(pageSize);
      expect(page.ids).not.toContain(after);
      ids.push(...page.ids);
      after = page.next;
    }
    return ids;
  }

  /** Keys of all due entities, over all shards. */
  async due(limit = 1_000): Promise<string[]> {
    const keys: string[] = [];
    for (let shard = 0; shard < this.engine.shards; shard++) {
      keys.push(...(await this.engine.due(shard, limit)).map(({ key }) => key));
    }
    return keys;
  }
}

export const stream = (id = "a"): Entity => entity("p", "stream", id);

export function done(result: { readonly kind: string }): Done {
  expect(result.kind).toBe("done");
  return result as Done;
}

export function append(...payloads: (string | Uint8Array)[]): Effect {
  return { op: "append", messages: payloads.map((payload) => message(payload)) };
}

export function message(payload: string | Uint8Array, rest: Partial<Message> = {}): Message {
  return { payload: typeof payload === "string" ? bytes(payload) : payload, at: 1, ...rest };
}

export function put(key: string, value: string, table = "t"): Effect {
  return { op: "put", table, key, value: bytes(value) };
}

export function drop(key: string, table = "t"): Effect {
  return { op: "drop", table, key };
}

/** Expects a conflict that carries the same state as a load. */
export function expectConflict(result: { readonly kind: string }, snapshot: Snapshot): void {
  expect(result.kind).toBe("conflict");
  expectSame((result as Conflict).snapshot, snapshot);
}

/** Compares everything except the offered generation, which may grow with time. */
export function expectSame(one: Snapshot, other: Snapshot): void {
  const state = ({ rev, head, rows }: Snapshot) => ({ rev, head, rows: rows.map((row) => row && text(row)) });
  expect(state(one)).toEqual(state(other));
}

export const bytes = (content: string): Uint8Array => new TextEncoder().encode(content);
export const text = (content: Uint8Array): string => new TextDecoder().decode(content);

/** In the order of their UTF-8 bytes. */
export function bytewise(keys: readonly string[]): string[] {
  return [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** Keys whose bytewise order differs from JavaScript's, or from the order that a careless separator gives. */
export const AWKWARD_KEYS = [
  "a",
  "B",
  "a/b",
  "a b",
  "a-b",
  "ab",
  "abc",
  "a\u0001",
  "a\u0000b",
  "é",
  "\uFF5E",
  "\u{1F600}",
  "\u{1F600}x",
  "~",
  "__proto__",
  "constructor",
  "10",
  "9",
];
