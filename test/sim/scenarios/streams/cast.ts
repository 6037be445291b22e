/**
 * The shared state of the clients of one run: their streams, the ids they have used, the offsets they were given. Drawn once
 * per run from a profile; every role of writers.ts, readers.ts and upheaval.ts works on it.
 */
import type { Position } from "@sluice/protocol";
import { History, type Result, type Retention } from "../../history.ts";
import type { Random } from "../../random.ts";
import type { Stage } from "../../scenario.ts";
import { StreamClient } from "./client.ts";
import { type Item, takesBatches } from "./messages.ts";

/** All creations at a path ask for the same stream, so that the checkers know what to expect. */
export interface StreamPlan {
  readonly path: string;
  readonly contentType: string;
  readonly ttlSeconds?: number | undefined;
  readonly retention?: Retention | undefined;
  /** A fork of any of these, at any offset seen there. */
  readonly sources?: readonly string[] | undefined;
}

const CONTENT_TYPES = ["application/json", "application/json", "text/plain", "application/octet-stream"];
/** Offsets remembered per path: enough for old and new ones. */
const MAX_OFFSETS = 30;

export class Cast {
  readonly history: History;
  readonly plans: StreamPlan[] = [];
  private readonly offsets = new Map<string, Position[]>();
  private ids = 0;
  private names = 0;

  constructor(
    readonly stage: Stage,
    readonly longPollMs: number,
  ) {
    this.history = new History(() => stage.world.now());
  }

  get random(): Random {
    return this.stage.random;
  }

  /** Plain streams first, then forks of them and of earlier forks. */
  draw(streams: number, forks: number, extras: readonly Partial<StreamPlan>[]): void {
    const forkType = this.random.pick(CONTENT_TYPES);
    for (let i = 1; i <= streams; i++) {
      const contentType = forks > 0 ? forkType : this.random.pick(CONTENT_TYPES);
      this.plans.push({ path: `s${i}`, contentType, ...(extras.length > 0 ? this.random.pick(extras) : {}) });
    }
    for (let i = 1; i <= forks; i++) {
      const sources = this.plans.map(({ path }) => path);
      this.plans.push({ path: `f${i}`, contentType: forkType, sources });
    }
  }

  planOf(path: string): StreamPlan {
    return this.plans.find((plan) => plan.path === path)!;
  }

  client(role: string): StreamClient {
    const typeOf = (path: string) => this.planOf(path).contentType;
    return new StreamClient(`${role}${++this.names}`, this.stage.network, this.history, typeOf, this.longPollMs);
  }

  /** Messages that no client has sent before. */
  items(plan: StreamPlan, max = 3): Item[] {
    const count = takesBatches(plan.contentType) ? this.random.between(1, max) : 1;
    return Array.from({ length: count }, () => ({ id: `m${++this.ids}`, padding: this.random.pick([0, 0, 5, 40]) }));
  }

  pause(maxMs = 200): Promise<void> {
    return this.stage.world.sleep(this.random.between(0, maxMs));
  }

  /** Remembers the offset in a result. */
  note(path: string, result: Result): Result {
    if (!("next" in result) || result.next === undefined || result.next.generation === 0) return result;
    const known = this.offsets.get(path) ?? [];
    this.offsets.set(path, known);
    if (known.length < MAX_OFFSETS) known.push(result.next);
    else known[this.random.below(MAX_OFFSETS)] = result.next;
    return result;
  }

  /** An offset that some client was given at this path. */
  someOffset(path: string): Position | undefined {
    const known = this.offsets.get(path);
    return known && this.random.pick(known);
  }

  /** Creates the stream of this path; undefined when a fork has no source yet. */
  async create(client: StreamClient, plan: StreamPlan, isClosed = false): Promise<Result | undefined> {
    const { path, contentType, ttlSeconds, retention, sources } = plan;
    const source = sources && this.random.pick(sources);
    const at = source && this.someOffset(source);
    if (source !== undefined && at === undefined) return undefined;
    const fork = source !== undefined && at ? { source, at } : undefined;
    const items = fork || this.random.chance(0.3) ? this.items(plan, 2) : [];
    const ids = items.map(({ id }) => id);
    const op = { kind: "create" as const, path, contentType, ids, closed: isClosed, ttlSeconds, retention, fork };
    const result = this.note(path, await client.create(op, items));
    if (fork === undefined || result.kind !== "unknown" || this.random.chance(0.5)) return result;
    // The same request again must not make a second fork.
    await this.pause();
    return this.note(path, await client.create(op, items));
  }
}

/** Whether a result says that the stream does not exist. */
export function isAbsent(result: Result): boolean {
  return result.kind === "refused" && (result.code === "stream-not-found" || result.code === "stream-gone");
}

export function isClosed(result: Result): boolean {
  return result.kind === "refused" && result.code === "stream-closed";
}
