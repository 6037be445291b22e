/**
 * The memory engine: the contract in its plainest form, the reference for every other engine's tests, and the store of throw-away
 * servers. `compose` opens it; keepers and features use it through the contract.
 *
 * Invariants: a commit that throws has changed nothing. The engine keeps copies, so callers may reuse their buffers. Revs are
 * never given twice. Revs and generations start at the boot time, so an offset from an earlier life of this server sorts below
 * all new ones.
 */

import type { Position } from "@sluice/protocol";
import type { World } from "../../core/world.ts";
import { ENGINE_BOUNDS, type EngineBounds } from "../bounds.ts";
import type {
  CommitAt,
  Conflict,
  Done,
  Effect,
  Engine,
  Entity,
  Fenced,
  Head,
  Held,
  Hit,
  Listing,
  LiveNode,
  LoggedMessage,
  Message,
  Owner,
  Page,
  Rev,
  Row,
  RowKey,
  Snapshot,
  ToldListener,
  Unwatch,
} from "../contract.ts";
import { NO_HEAD } from "../contract.ts";
import { headAfter, headStep } from "../head.ts";
import { SoleNode } from "../nodes.ts";
import { Ownership } from "../ownership.ts";
import { SteadyClock } from "../steady-clock.ts";
import { WindowCounter } from "../window-counter.ts";
import { SortedMap } from "./sorted-map.ts";

/** The whole state of one entity. The log holds the messages after `head.start`, all of them of `head.generation`. */
interface State {
  readonly entity: Entity;
  rev: Rev;
  head: Head;
  log: LoggedMessage[];
  readonly tables: Map<string, SortedMap<Uint8Array>>;
  remindAtMs: number | null;
}

interface Watcher {
  readonly wake: () => void;
}

export interface MemoryOptions {
  readonly world: World;
  readonly bounds?: EngineBounds | undefined;
}

export function openMemory({ world, bounds = ENGINE_BOUNDS }: MemoryOptions): Engine {
  return new MemoryEngine(world, bounds);
}

class MemoryEngine implements Engine {
  readonly exclusive = true;
  readonly shards = 1;
  private readonly states = new Map<string, State>();
  /** The existing ids, by kind, then by project. */
  private readonly directory = new Map<string, Map<string, SortedMap<true>>>();
  private readonly watchers = new Map<string, Set<Watcher>>();
  private readonly ownership: Ownership;
  private readonly self: SoleNode;
  private readonly counter: WindowCounter;
  private readonly clock: SteadyClock;
  private lastRev: Rev;
  /**
   * No generation of a destroyed entity was greater. One number serves all entities, so a destroyed one leaves nothing behind.
   */
  private destroyedGeneration: number;

  constructor(
    private readonly world: World,
    private readonly bounds: EngineBounds,
  ) {
    this.clock = new SteadyClock(world);
    this.lastRev = world.now();
    this.destroyedGeneration = world.now();
    const now = () => this.clock.now();
    this.self = new SoleNode(world, now);
    this.ownership = new Ownership(world, now, world.now(), bounds.claims);
    this.counter = new WindowCounter(bounds.windows);
  }

  now(): number {
    return this.clock.now();
  }

  load(e: Entity, keys: readonly RowKey[]): Snapshot {
    const state = this.states.get(e.key);
    const head = state?.head ?? NO_HEAD;
    return {
      rev: state?.rev ?? 0,
      head,
      nextGeneration: Math.max(this.destroyedGeneration, head.generation) + 1,
      rows: keys.map(({ table, key }) => state?.tables.get(table)?.get(key)),
    };
  }

  /** Async, so that the outcome arrives in a later turn, as on every other engine. */
  async commit(e: Entity, at: CommitAt, effects: readonly Effect[]): Promise<Done | Conflict | Fenced> {
    if (at.owner !== undefined && !this.ownership.stands(e.key, at.owner)) return { kind: "fenced" };
    const found = this.states.get(e.key);
    const rev = found?.rev ?? 0;
    if (at.rev !== rev || (found === undefined && this.beginsWithUsedGeneration(effects))) {
      return { kind: "conflict", snapshot: this.load(e, at.keys ?? []) };
    }
    if (effects.length === 0) return { kind: "done", rev, head: found?.head ?? NO_HEAD };
    const head = headAfter(found?.head ?? NO_HEAD, effects);
    // No statement below throws.
    const state = found ?? this.create(e);
    for (const effect of effects) this.apply(state, effect);
    state.rev = this.states.has(e.key) ? ++this.lastRev : 0;
    this.wakeWatchers(e.key);
    return { kind: "done", rev: state.rev, head };
  }

  /** Detects an entity that was created and destroyed since the caller saw none. Rev 0 cannot tell; the generation can. */
  private beginsWithUsedGeneration(effects: readonly Effect[]): boolean {
    return effects.some((effect) => effect.op === "begin" && effect.generation <= this.destroyedGeneration);
  }

  private apply(state: State, effect: Effect): void {
    const before = state.head;
    state.head = headStep(before, effect);
    switch (effect.op) {
      case "begin":
        state.log = [];
        break;
      case "append":
        for (const [i, message] of effect.messages.entries()) state.log.push(copy(message, before, i + 1));
        break;
      case "trim":
        state.log.splice(0, indexAfter(state, state.head.start));
        break;
      case "put":
        tableOf(state, effect.table).set(effect.key, new Uint8Array(effect.value));
        break;
      case "drop":
        state.tables.get(effect.table)?.delete(effect.key);
        break;
      case "remind":
        state.remindAtMs = effect.atMs;
        break;
      case "destroy":
        this.destroyedGeneration = Math.max(this.destroyedGeneration, before.generation);
        this.remove(state.entity);
        break;
    }
  }

  rows(e: Entity, table: string, after: string, limit: number): readonly Row[] {
    const rows = this.states.get(e.key)?.tables.get(table);
    if (rows === undefined) return [];
    return rows.keysAfter(after, limit).map((key) => ({ key, value: rows.get(key)! }));
  }

  read(e: Entity, after: Position, maxBytes: number): Page {
    const state = this.states.get(e.key);
    if (state === undefined) return { messages: [], head: NO_HEAD, atTail: true };
    const { log, head } = state;
    const from = indexAfter(state, after);
    let to = from;
    let bytes = 0;
    while (to < log.length && to - from < this.bounds.pageMessages) {
      bytes += log[to]!.payload.length;
      if (bytes > maxBytes && to > from) break;
      to++;
    }
    return { messages: log.slice(from, to), head, atTail: to === log.length };
  }

  async claim(e: Entity, node: string, ttlMs: number, held?: Owner): Promise<Owner | Held> {
    return this.ownership.claim(e.key, node, ttlMs, held);
  }

  async release(e: Entity, owner: Owner): Promise<void> {
    this.ownership.release(e.key, owner);
  }

  watch(e: Entity, wake: () => void): Unwatch {
    const watcher = { wake };
    const watchers = this.watchers.get(e.key) ?? new Set();
    this.watchers.set(e.key, watchers.add(watcher));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.watchers.get(e.key) === watchers) this.watchers.delete(e.key);
    };
  }

  /** Wakes watchers in a turn of its own, because a watcher may read, commit or unwatch. */
  private wakeWatchers(key: string): void {
    const watchers = this.watchers.get(key);
    if (watchers === undefined) return;
    queueMicrotask(() => {
      for (const watcher of [...watchers]) if (watchers.has(watcher)) watcher.wake();
    });
  }

  due(_shard: number, limit: number): readonly Entity[] {
    const now = this.now();
    const due: { entity: Entity; atMs: number }[] = [];
    for (const { entity, remindAtMs } of this.states.values()) {
      if (remindAtMs !== null && remindAtMs <= now) due.push({ entity, atMs: remindAtMs });
    }
    due.sort((a, b) => a.atMs - b.atMs);
    return due.slice(0, limit).map(({ entity }) => entity);
  }

  list(project: string, kind: string, prefix: string, after: string, limit: number): Listing {
    const found =
      this.directory
        .get(kind)
        ?.get(project)
        ?.keysAfter(after, limit + 1, prefix) ?? [];
    const ids = found.slice(0, limit);
    return { ids, next: found.length > limit ? ids.at(-1) : undefined };
  }

  projects(kind: string): readonly string[] {
    return [...(this.directory.get(kind)?.keys() ?? [])];
  }

  async hit(key: string, limit: number, windowMs: number): Promise<Hit> {
    return this.counter.hit(key, limit, windowMs, this.world.monotonicMs());
  }

  get node(): string {
    return this.self.id;
  }

  nodes(): readonly LiveNode[] {
    return this.self.nodes();
  }

  tell(node: string, bytes: Uint8Array): void {
    this.self.tell(node, bytes);
  }

  onTold(listener: ToldListener): Unwatch {
    return this.self.onTold(listener);
  }

  health(): undefined {
    return undefined;
  }

  async close(): Promise<void> {
    this.states.clear();
    this.directory.clear();
    this.watchers.clear();
    this.self.close();
  }

  private create(e: Entity): State {
    const state: State = { entity: e, rev: 0, head: NO_HEAD, log: [], tables: new Map(), remindAtMs: null };
    this.states.set(e.key, state);
    const projects = this.directory.get(e.kind) ?? new Map<string, SortedMap<true>>();
    this.directory.set(e.kind, projects);
    const ids = projects.get(e.project) ?? new SortedMap<true>();
    projects.set(e.project, ids);
    ids.set(e.id, true);
    return state;
  }

  private remove(e: Entity): void {
    this.states.delete(e.key);
    const projects = this.directory.get(e.kind);
    const ids = projects?.get(e.project);
    ids?.delete(e.id);
    if (ids?.size === 0) projects?.delete(e.project);
  }
}

function copy({ payload, at, id, key, attributes }: Message, head: Head, ahead: number): LoggedMessage {
  return {
    payload: copyOf(payload),
    at,
    id,
    key,
    attributes: attributes && { ...attributes },
    position: { generation: head.generation, seq: head.last.seq + ahead },
  };
}

const SLAB_BYTES = 64 * 1_024;
const SMALL_BYTES = 4 * 1_024;
let slab = new Uint8Array(SLAB_BYTES);
let slabUsed = 0;

/** Small payloads share a buffer, because a buffer of its own costs a payload several times its bytes, and the collector work. */
function copyOf(payload: Uint8Array): Uint8Array {
  const { length } = payload;
  if (length > SMALL_BYTES) return new Uint8Array(payload);
  if (slabUsed + length > SLAB_BYTES) {
    slab = new Uint8Array(SLAB_BYTES);
    slabUsed = 0;
  }
  const own = slab.subarray(slabUsed, slabUsed + length);
  own.set(payload);
  slabUsed += length;
  return own;
}

function tableOf(state: State, name: string): SortedMap<Uint8Array> {
  const table = state.tables.get(name) ?? new SortedMap<Uint8Array>();
  state.tables.set(name, table);
  return table;
}

/** The index in the log of the first message after a position of any generation. */
function indexAfter({ log, head }: State, after: Position): number {
  if (after.generation < head.generation) return 0;
  if (after.generation > head.generation) return log.length;
  const firstSeq = head.last.seq - log.length + 1;
  return Math.min(Math.max(after.seq - firstSeq + 1, 0), log.length);
}
