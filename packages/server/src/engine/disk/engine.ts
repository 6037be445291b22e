/**
 * The disk engine: a journal in front, an ordered store behind, and an overlay in memory with the state that the store lacks.
 * `open.ts` assembles the parts and explains the design; keepers and features use the engine through the contract.
 *
 * Invariants: a commit becomes visible, is acknowledged and wakes watchers only after its frame was flushed. Between the check of
 * its rev and that moment there is at most one commit per entity; later ones wait and check again. Reads are synchronous.
 */
import type { Position } from "@sluice/protocol";
import type { Metric } from "../../core/metric.ts";
import type { World } from "../../core/world.ts";
import {
  type CommitAt,
  type Conflict,
  type Done,
  type Effect,
  type Engine,
  EngineError,
  type Entity,
  type Fenced,
  type Held,
  type Hit,
  type Listing,
  type LiveNode,
  NO_HEAD,
  type Owner,
  type Page,
  type Row,
  type RowKey,
  type Snapshot,
  type ToldListener,
  type Unwatch,
} from "../contract.ts";
import { headAfter } from "../head.ts";
import { SoleNode } from "../nodes.ts";
import { Ownership } from "../ownership.ts";
import { SteadyClock } from "../steady-clock.ts";
import { WindowCounter } from "../window-counter.ts";
import type { Applied } from "./apply-runner.ts";
import { type ApplyEvents, ApplyScheduler } from "./apply-scheduler.ts";
import { BackgroundCheck } from "./background-check.ts";
import { CheckMeter } from "./check-meter.ts";
import { CREATED, DESTROYED, type Encoded, encodeCommit, type Outcome, REMINDED } from "./commit-block.ts";
import { Directory } from "./directory.ts";
import type { EntityState } from "./entity-state.ts";
import { hasGarbage } from "./garbage.ts";
import { type Extent, Journal, type QueuedCommit } from "./journal.ts";
import { readPage } from "./log-reader.ts";
import type { DiskParts } from "./open.ts";
import { type DurableCommit, Overlay } from "./overlay.ts";
import type { OwedFrame } from "./recovery.ts";
import { restore } from "./restore.ts";
import { Slab } from "./slab.ts";
import type { Store } from "./store.ts";
import { StoredCache } from "./stored-cache.ts";
import { type View, Viewer } from "./view.ts";
import { Watchers } from "./watchers.ts";

/** Claims of one process count up from its boot number, so that no later process gives the same epoch. */
const CLAIMS_PER_BOOT = 2 ** 20;

type Answer = Done | Conflict | Fenced;

class Commit implements QueuedCommit, DurableCommit {
  lsn = 0;

  constructor(
    readonly state: EntityState,
    readonly encoded: Encoded,
    readonly outcome: Outcome,
    readonly resolve: (answer: Answer) => void,
    private readonly reject: (error: Error) => void,
    private readonly settled: (commit: Commit) => void,
  ) {}

  get block(): Buffer {
    return this.encoded.block;
  }

  refuse(error: EngineError): void {
    this.settled(this);
    this.reject(error);
  }
}

export class DiskEngine implements Engine {
  readonly exclusive = true;
  readonly shards = 1;
  private readonly slab = new Slab();
  private readonly world: World;
  private readonly clock: SteadyClock;
  private readonly store: Store;
  private readonly cache: StoredCache;
  private readonly overlay: Overlay;
  private readonly viewer: Viewer;
  private readonly directory: Directory;
  private readonly journal: Journal<Commit>;
  private readonly scheduler: ApplyScheduler;
  /** Undefined for a new store, which has nothing to check. */
  readonly check: BackgroundCheck | undefined;
  private noted: Promise<void> = Promise.resolve();
  private readonly ownership: Ownership;
  private readonly self: SoleNode;
  private readonly counter: WindowCounter;
  private readonly watchers = new Watchers();
  /** Goes to the applier once its thread has started. */
  private readonly owed: readonly Extent[];
  private lastNumber: number;
  private closed = false;

  /** `owed`: the frames of earlier processes that the store lacks. */
  constructor(
    private readonly parts: DiskParts,
    owed: readonly OwedFrame[],
  ) {
    const { world, store, meta, limits, segments } = parts;
    this.world = world;
    this.store = store;
    this.cache = new StoredCache(limits.cacheBytes);
    this.overlay = new Overlay(limits.tailBytes, meta, this.cache, limits.keptStates);
    this.viewer = new Viewer(store, this.overlay, this.cache);
    this.directory = new Directory(store, this.overlay, this.viewer);
    this.clock = new SteadyClock(world);
    const now = () => this.clock.now();
    this.self = new SoleNode(world, now);
    this.ownership = new Ownership(world, now, meta.boots * CLAIMS_PER_BOOT, limits.claims);
    this.counter = new WindowCounter(limits.windows);
    this.owed = owed.map(({ segment, from, to }) => ({ segment, from, to }));
    this.lastNumber = Math.max(meta.lastNumber, restore(owed, this.overlay, this.viewer));
    const last = owed.at(-1);
    const nextLsn = last === undefined ? meta.appliedThrough + 1 : last.firstLsn + last.count;
    const owedBytes = this.owed.reduce((sum, { from, to }) => sum + to - from, 0);
    const durable = (commits: readonly Commit[], extent: Extent) => this.durable(commits, extent);
    this.journal = new Journal(world, limits, segments, nextLsn, { durable }, owedBytes);
    const events: ApplyEvents = {
      waiting: () => this.overlay.waiting,
      farShare: () => this.overlay.farShare,
      applied: (applied) => this.applied(applied),
      stuck: (error) => this.journal.storeStuck(error),
      failed: (error) => this.stop(error),
    };
    this.scheduler = new ApplyScheduler(world, limits, parts.runner, events, hasGarbage(store));
    this.check = this.checkOf(parts);
  }

  private checkOf({ world, limits, store, checkRunner, runner, info, warn }: DiskParts): BackgroundCheck | undefined {
    const { unchecked } = store;
    if (unchecked === undefined || checkRunner === undefined) return undefined;
    return new BackgroundCheck(world, limits.checkRateBytes, unchecked, checkRunner, {
      isBehind: () => this.isBehind(),
      passed: () => runner.passed?.(),
      failed: (error, part) => {
        warn("the check of the store has ended: writes are refused until a restart", { reason: error.explanation });
        // A damaged structure can hide rows. A damaged value fails its own checksum, and other values stay readable.
        if (part === "structure") {
          unchecked.refuse(error);
          this.cache.clear();
        }
        this.stop(error);
      },
      log: info,
    });
  }

  /** Stops all writes, to the journal and to the store, until a restart. */
  private stop(error: EngineError): void {
    this.journal.stop(error);
    this.scheduler.stop();
    if (error.code === "data-damaged") this.noted = this.parts.noteDamage(error).catch(() => undefined);
  }

  /** Must have resolved before the first commit. A failed start leaves no thread, timer or file of its own open. */
  async start(): Promise<void> {
    const starting = [this.journal.start(), this.parts.runner.started];
    await Promise.allSettled(starting);
    try {
      await Promise.all(starting);
    } catch (fault) {
      await this.journal.close();
      await this.scheduler.close();
      throw fault;
    }
    for (const extent of this.owed) this.scheduler.durable(extent);
    this.check?.start();
  }

  now(): number {
    return this.clock.now();
  }

  load(e: Entity, keys: readonly RowKey[]): Snapshot {
    const view = this.viewer.view(e);
    return {
      rev: view.rev,
      head: view.head,
      nextGeneration: Math.max(this.overlay.destroyedGeneration, view.head.generation) + 1,
      rows: keys.map((key) => this.viewer.row(e, view, key)),
    };
  }

  commit(e: Entity, at: CommitAt, effects: readonly Effect[]): Promise<Answer> {
    return new Promise((resolve, reject) => this.tryCommit(e, at, effects, resolve, reject));
  }

  private tryCommit(
    e: Entity,
    at: CommitAt,
    effects: readonly Effect[],
    resolve: (answer: Answer) => void,
    reject: (error: Error) => void,
  ): void {
    try {
      const found = this.overlay.states.get(e.key);
      if (found?.pending) {
        // The other commit is not durable yet, so no answer may rest on it.
        found.waiting ??= [];
        found.waiting.push(() => this.tryCommit(e, at, effects, resolve, reject));
        return;
      }
      const view = found ?? this.viewer.view(e);
      const answer = this.answerAtOnce(e, at, effects, view);
      if (answer !== undefined) {
        resolve(answer);
        return;
      }
      const outcome = this.decide(view, effects);
      const encoded = encodeCommit(e, effects, outcome, this.slab);
      const state = found ?? this.overlay.hold(e, view);
      state.pending = true;
      this.journal.append(new Commit(state, encoded, outcome, resolve, reject, this.settled));
    } catch (fault) {
      reject(fault as Error);
    }
  }

  /** Answers commits that need no write. */
  private answerAtOnce(
    e: Entity,
    at: CommitAt,
    effects: readonly Effect[],
    { rev, number, head }: Omit<View, "state">,
  ): Answer | undefined {
    if (this.closed) throw new EngineError("storage-failed", "The engine is closed.");
    if (at.owner !== undefined && !this.ownership.stands(e.key, at.owner)) return { kind: "fenced" };
    if (at.rev !== rev || (number === 0 && this.beginsWithUsedGeneration(effects))) {
      return { kind: "conflict", snapshot: this.load(e, at.keys ?? []) };
    }
    return effects.length === 0 ? { kind: "done", rev, head } : undefined;
  }

  /** Detects an entity that was created and destroyed since the caller saw none. Rev 0 cannot tell; the generation can. */
  private beginsWithUsedGeneration(effects: readonly Effect[]): boolean {
    const { destroyedGeneration } = this.overlay;
    return effects.some((effect) => effect.op === "begin" && effect.generation <= destroyedGeneration);
  }

  private decide(view: Omit<View, "state">, effects: readonly Effect[]): Outcome {
    const destroyed = effects[effects.length - 1]?.op === "destroy";
    // The last head of a destroyed entity tells which generations are used.
    const head = headAfter(view.head, destroyed ? effects.slice(0, -1) : effects);
    let flags = (view.number === 0 ? CREATED : 0) | (destroyed ? DESTROYED : 0);
    let { remindAtMs } = view;
    for (const effect of effects) {
      if (effect.op !== "remind") continue;
      remindAtMs = effect.atMs;
      flags |= REMINDED;
    }
    const number = view.number === 0 ? ++this.lastNumber : view.number;
    return { number, head, remindAtMs, flags, before: view.head };
  }

  private durable(commits: readonly Commit[], extent: Extent): void {
    for (const commit of commits) this.overlay.add(commit);
    this.scheduler.durable(extent);
    for (const commit of commits) {
      const { state, resolve, lsn, outcome } = commit;
      if (outcome.flags & DESTROYED) resolve({ kind: "done", rev: 0, head: NO_HEAD });
      else resolve({ kind: "done", rev: lsn, head: outcome.head });
      this.watchers.note(state.entity.key);
      this.settled(commit);
    }
    this.watchers.wakeNoted();
  }

  /** The commit has settled: the overlay has its bytes, or it failed. The commits that waited for it check again. */
  private readonly settled = ({ state, encoded }: Commit): void => {
    this.slab.giveBack(encoded.piece);
    state.pending = false;
    const { waiting } = state;
    if (waiting === undefined) {
      this.overlay.settle(state);
      return;
    }
    state.waiting = undefined;
    for (const look of waiting) look();
    this.overlay.settle(state);
  };

  /** Readers of the store must see the transaction before the overlay forgets it. */
  private applied(applied: Applied): void {
    this.store.refresh();
    this.overlay.applied(applied.lsn);
    this.parts.segments.retire(applied.segment);
    this.journal.applied(applied.bytes);
  }

  rows(e: Entity, table: string, after: string, limit: number): readonly Row[] {
    return this.directory.rows(e, this.viewer.view(e), table, after, limit);
  }

  read(e: Entity, after: Position, maxBytes: number): Page {
    return readPage(this.store, e, this.viewer.view(e), after, maxBytes, this.parts.limits.pageMessages);
  }

  async claim(e: Entity, node: string, ttlMs: number, held?: Owner): Promise<Owner | Held> {
    return this.ownership.claim(e.key, node, ttlMs, held);
  }

  async release(e: Entity, owner: Owner): Promise<void> {
    this.ownership.release(e.key, owner);
  }

  watch(e: Entity, wake: () => void): Unwatch {
    return this.watchers.watch(e.key, wake);
  }

  due(_shard: number, limit: number): readonly Entity[] {
    return this.directory.due(this.now(), limit);
  }

  list(project: string, kind: string, prefix: string, after: string, limit: number): Listing {
    return this.directory.list(project, kind, prefix, after, limit);
  }

  projects(kind: string): readonly string[] {
    return this.directory.projects(kind);
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

  isBehind(): boolean {
    return this.journal.lagBytes > this.parts.limits.lagBytes / 2;
  }

  health(): EngineError | undefined {
    return this.journal.health();
  }

  metrics(): readonly Metric[] {
    return [...this.journal.meter.metrics(this.journal), ...(this.check?.meter ?? new CheckMeter()).metrics()];
  }

  /** Bytes in the journal that the store does not have yet. */
  get lagBytes(): number {
    return this.journal.lagBytes;
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    this.self.close();
    try {
      await this.check?.close();
      await this.journal.close();
      await this.scheduler.close();
      await this.noted;
      await this.store.close();
    } finally {
      await this.parts.unlock();
    }
  }
}
