/**
 * The state that outlives a server process in a simulation, and how it is reopened. Each host opens its engine here.
 *
 * Invariants: `memory` keeps one engine for the whole run; every process reaches it through a `SlowEngine`, whose calls are
 * delayed and may fail, as the contract allows.
 */
import type { Awaitable } from "../../packages/server/src/core/awaitable.ts";
import type {
  CommitAt,
  Conflict,
  Done,
  Effect,
  Engine,
  Entity,
  Fenced,
  Held,
  Hit,
  Listing,
  LiveNode,
  Owner,
  Page,
  Row,
  RowKey,
  Snapshot,
  ToldListener,
  Unwatch,
} from "../../packages/server/src/engine/contract.ts";
import { EngineError } from "../../packages/server/src/engine/contract.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { NodeNetwork, type SimNode } from "./node-network.ts";
import { Random } from "./random.ts";
import type { Process, SimWorld } from "./world.ts";

export type Death = "kill" | "power-cut";

export interface Storage {
  /** Opens the engine on the surviving data. */
  open(process: Process): Promise<Engine>;
  /** The process has died without closing its engine. */
  died(how: Death): void;
  /** Ends all faults and delays. */
  calm(): void;
  /**
   * The engine that all processes reach, if there is one: it sees every commit that arrives, also from a process that dies
   * meanwhile.
   */
  readonly beneath?: Engine | undefined;
}

export type OpenStorage = (world: SimWorld) => Storage;

/** How a storage behaves during one run, drawn once. */
export interface Pace {
  /** The share of calls that answer at once, in the caller's own turn where the contract allows it. */
  readonly instant: number;
  readonly maxMs: number;
  /** The share of calls that take up to `stallMs` instead. */
  readonly stalls: number;
  readonly stallMs: number;
  /** The share of calls that fail; a failed commit may have happened. */
  readonly failures: number;
  /** The share of wakes that come twice. */
  readonly echoes: number;
}

const CALM: Pace = { instant: 0.5, maxMs: 1, stalls: 0, stallMs: 0, failures: 0, echoes: 0 };

export function drawPace(random: Random): Pace {
  return {
    instant: random.pick([0, 0.3, 0.8, 1]),
    maxMs: random.pick([0, 2, 20]),
    stalls: random.pick([0, 0, 0.01, 0.05]),
    stallMs: random.pick([200, 3_000]),
    failures: random.pick([0, 0, 0, 0.01, 0.04]),
    echoes: random.pick([0, 0.2]),
  };
}

export const memoryStorage: OpenStorage = (world) => openMemoryStorage(world, true);

/** The same, for several servers that write at the same time. */
export const sharedStorage: OpenStorage = (world) => openMemoryStorage(world, false);

function openMemoryStorage(world: SimWorld, exclusive: boolean): Storage {
  const random = world.random.branch();
  const engine = openMemory({ world: world.process("memory") });
  let pace = drawPace(random);
  // Randomness of its own, so that messages between nodes change nothing else in a run.
  const nodes = new NodeNetwork(world, new Random(~world.seed));
  return {
    open: async (process) => new SlowEngine(engine, process, nodes.join(process), () => pace, random, exclusive),
    died() {},
    calm() {
      pace = CALM;
      nodes.calm();
    },
    beneath: engine,
  };
}

/** An engine behind a delay: a call arrives at one event, and its answer at a later one. */
class SlowEngine implements Engine {
  private readonly unwatches = new Set<Unwatch>();

  constructor(
    private readonly inner: Engine,
    private readonly process: Process,
    private readonly self: SimNode,
    private readonly pace: () => Pace,
    private readonly random: Random,
    readonly exclusive: boolean,
  ) {
    process.onEnd(() => this.unwatchAll());
  }

  get shards(): number {
    return this.inner.shards;
  }

  now(): number {
    return this.inner.now();
  }

  load(e: Entity, keys: readonly RowKey[]): Awaitable<Snapshot> {
    return this.look(`load ${e.key}`, () => this.inner.load(e, keys));
  }

  commit(e: Entity, at: CommitAt, effects: readonly Effect[]): Promise<Done | Conflict | Fenced> {
    return this.far(`commit ${e.key}`, () => this.inner.commit(e, at, effects));
  }

  rows(e: Entity, table: string, after: string, limit: number): Awaitable<readonly Row[]> {
    return this.look(`rows ${e.key}`, () => this.inner.rows(e, table, after, limit));
  }

  read(e: Entity, after: { generation: number; seq: number }, maxBytes: number): Awaitable<Page> {
    return this.look(`read ${e.key}`, () => this.inner.read(e, after, maxBytes));
  }

  claim(e: Entity, node: string, ttlMs: number, held?: Owner): Promise<Owner | Held> {
    return this.far(`claim ${e.key}`, () => this.inner.claim(e, node, ttlMs, held));
  }

  release(e: Entity, owner: Owner): Promise<void> {
    return this.far(`release ${e.key}`, () => this.inner.release(e, owner));
  }

  /** Hints come late and sometimes twice, and never to a watcher that has left. */
  watch(e: Entity, wake: () => void): Unwatch {
    let watches = true;
    const tell = () => this.process.schedule(`wake ${e.key}`, this.delayMs(), () => watches && wake());
    const forget = this.inner.watch(e, () => {
      tell();
      if (this.random.chance(this.pace().echoes)) tell();
    });
    const unwatch = () => {
      watches = false;
      this.unwatches.delete(unwatch);
      forget();
    };
    this.unwatches.add(unwatch);
    return unwatch;
  }

  due(shard: number, limit: number): Awaitable<readonly Entity[]> {
    return this.look("due", () => this.inner.due(shard, limit));
  }

  list(project: string, kind: string, prefix: string, after: string, limit: number): Awaitable<Listing> {
    return this.look("list", () => this.inner.list(project, kind, prefix, after, limit));
  }

  projects(kind: string): Awaitable<readonly string[]> {
    return this.look("projects", () => this.inner.projects(kind));
  }

  hit(key: string, limit: number, windowMs: number): Promise<Hit> {
    return this.far("hit", () => this.inner.hit(key, limit, windowMs));
  }

  get node(): string {
    return this.self.id;
  }

  nodes(): Awaitable<readonly LiveNode[]> {
    return this.look("nodes", () => this.self.nodes());
  }

  tell(node: string, bytes: Uint8Array): void {
    this.self.tell(node, bytes);
  }

  onTold(listener: ToldListener): Unwatch {
    return this.self.onTold(listener);
  }

  health(): EngineError | undefined {
    return undefined;
  }

  /** Closes the process's handles; the data stays. */
  async close(): Promise<void> {
    this.unwatchAll();
    this.self.close();
  }

  private unwatchAll(): void {
    for (const unwatch of [...this.unwatches]) unwatch();
  }

  private look<T>(label: string, work: () => Awaitable<T>): Awaitable<T> {
    return this.random.chance(this.pace().instant) ? work() : this.far(label, work);
  }

  private far<T>(label: string, work: () => Awaitable<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const fails = this.random.chance(this.pace().failures);
      const answer = (tell: () => void) => this.process.schedule(`${label} answered`, this.delayMs(), tell);
      const fail = () => answer(() => reject(new EngineError("unavailable", "the storage did not answer")));
      const arrive = async (): Promise<void> => {
        // Half of the failures come before the effect, the others after it.
        if (fails && this.random.chance(0.5)) return void fail();
        try {
          const result = await work();
          if (fails) fail();
          else answer(() => resolve(result));
        } catch (fault) {
          answer(() => reject(fault));
        }
      };
      this.process.schedule(label, this.delayMs(), () => void arrive());
    });
  }

  private delayMs(): number {
    const { maxMs, stalls, stallMs } = this.pace();
    return this.random.between(0, this.random.chance(stalls) ? stallMs : maxMs);
  }
}
