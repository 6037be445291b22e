/**
 * Reconstructs a run from its history: the lives (incarnations) of each path, the place of each message, and the call that
 * put it there. Every checker builds on it.
 *
 * Invariants, each reported as a violation when broken:
 * - one place holds one message, and one message has one place within a life of its stream (at most once, never reordered);
 * - every message was written to this path, by a call that was not refused;
 * - the messages of one call lie next to each other, in their order.
 *
 * Offsets are opaque to clients but not here: (generation, number). Every page ends at an offset, so the number of each
 * message follows by counting back; the readers' checker proves that pages have no holes. The messages that a fork has
 * inherited lie in its source, and a message's writer tells which.
 */
import type { Position } from "@sluice/protocol";
import { type Append, type Call, type Create, type History, type Read, show, showPosition } from "../history.ts";

export interface Incarnation {
  readonly path: string;
  readonly generation: number;
  /** The number before the first message of its own; undefined for a fork of which only a later part was ever seen. */
  readonly base: number | undefined;
  readonly create: Call<Create> | undefined;
  readonly ids: Map<number, string>;
  readonly seqs: Map<string, number>;
}

/** A write that has happened: its messages, its interval, and the place of its last message. */
export interface Mutation {
  readonly call: Call<Create | Append>;
  readonly incarnation: Incarnation;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly invoked: number;
  readonly returned: number;
}

export class Ledger {
  readonly violations: string[] = [];
  readonly mutations: Mutation[] = [];
  private readonly byPath = new Map<string, Map<number, Incarnation>>();
  /** The paths of forks, and every source that a call named for them. */
  private readonly sources = new Map<string, Set<string>>();
  /** Every attempt to write a message. */
  private readonly writers = new Map<string, Call<Create | Append>[]>();

  constructor(readonly history: History) {
    for (const call of history.calls) if (isWrite(call)) this.noteWriter(call);
    this.findIncarnations();
    for (const call of history.calls) if (isWrite(call) && wrote(call)) this.placeWrite(call);
    for (const call of history.calls) if (call.op.kind === "read") this.placePage(call as Call<Read>);
    for (const [id, calls] of this.writers) if (calls[0]!.op.ids[0] === id) this.findMutations(calls);
  }

  incarnationsOf(path: string): Incarnation[] {
    return [...(this.byPath.get(path)?.values() ?? [])].sort((a, b) => a.generation - b.generation);
  }

  incarnation(path: string, generation: number): Incarnation | undefined {
    return this.byPath.get(path)?.get(generation);
  }

  isFork(path: string): boolean {
    return this.sources.has(path);
  }

  get paths(): string[] {
    return [...this.byPath.keys()];
  }

  /** The path that a message was written to. */
  private pathOf(id: string): string | undefined {
    return this.writers.get(id)?.[0]?.op.path;
  }

  writersOf(id: string): readonly Call<Create | Append>[] {
    return this.writers.get(id) ?? [];
  }

  /** The life of the path that a page is known to come from: it tells the tail, or holds a message written there. */
  lifeOfPage({ op, result }: Call<Read>): Incarnation | undefined {
    if (result.kind !== "done" || result.next === undefined) return undefined;
    const isOwn = !this.isFork(op.path) || result.upToDate || result.ids?.some((id) => this.pathOf(id) === op.path);
    return isOwn ? this.incarnation(op.path, result.next.generation) : undefined;
  }

  /** Whether a fork at `path` may have inherited from `source`, directly or through other forks. */
  inheritsFrom(path: string, source: string, depth = 8): boolean {
    return [...(this.sources.get(path) ?? [])].some(
      (direct) => direct === source || (depth > 0 && this.inheritsFrom(direct, source, depth - 1)),
    );
  }

  /** How many messages may have been written to a path by then without any client having seen them. */
  unseenWrites(path: string, until: number): number {
    const lives = this.incarnationsOf(path);
    let count = 0;
    for (const { op, result, invoked } of this.history.calls) {
      if (op.kind !== "append" || op.path !== path || result.kind !== "unknown" || invoked.tick > until) continue;
      count += op.ids.filter((id) => !lives.some(({ seqs }) => seqs.has(id))).length;
    }
    return count;
  }

  /** Whether retention trims some source of this fork, which shows in its inherited messages. */
  mayInheritCut(path: string): boolean {
    return this.history.calls.some(
      ({ op }) => op.kind === "create" && op.retention !== undefined && this.inheritsFrom(path, op.path),
    );
  }

  /** The TTL of a stream of this life: a fork without one of its own takes its source's. */
  ttlOf({ create }: Incarnation): number | undefined {
    if (create === undefined) return undefined;
    if (create.op.fork === undefined) return create.op.ttlSeconds;
    const ttls = this.incarnationsOf(create.op.fork.source).map(
      (source) => this.ttlOf(source) ?? Number.POSITIVE_INFINITY,
    );
    // The source's life need not be known; nothing ends earlier than the shortest TTL allows.
    const shortest = Math.min(...ttls);
    return Number.isFinite(shortest) ? shortest : undefined;
  }

  private noteWriter(call: Call<Create | Append>): void {
    if (call.op.kind === "create" && call.op.fork) {
      const { path, fork } = call.op;
      this.sources.set(path, (this.sources.get(path) ?? new Set()).add(fork.source));
    }
    for (const id of call.op.ids) {
      const calls = this.writers.get(id);
      if (calls) calls.push(call);
      else this.writers.set(id, [call]);
    }
  }

  private findIncarnations(): void {
    const { calls } = this.history;
    for (const call of calls) {
      if (call.op.kind !== "create" || !wrote(call as Call<Create>)) continue;
      const { generation, seq } = nextOf(call)!;
      this.add(call.op.path, generation, seq - call.op.ids.length, call as Call<Create>);
    }
    for (const { op, result } of calls) {
      if (op.kind === "read" && result.kind === "done") this.findInPage(op.path, result.next, result.ids ?? []);
    }
    for (const { op, result } of calls) {
      if (!("next" in result) || result.next === undefined || result.next.generation === 0) continue;
      const isAppend = op.kind === "append" && op.ids.length > 0;
      if (!this.isFork(op.path)) this.add(op.path, result.next.generation, 0, undefined);
      else if (isAppend) this.add(op.path, result.next.generation, undefined, undefined);
    }
  }

  /** A fork whose creation was never answered is found by its first message. */
  private findInPage(path: string, next: Position | undefined, ids: readonly string[]): void {
    if (next === undefined || !this.isFork(path)) return;
    for (const [i, id] of ids.entries()) {
      const create = this.writersOf(id).find((call) => call.op.path === path && isCreator(call));
      if (create === undefined) continue;
      const base = next.seq - ids.length + i - create.op.ids.indexOf(id);
      this.add(path, next.generation, base, create as Call<Create>);
    }
  }

  private add(path: string, generation: number, base: number | undefined, create: Call<Create> | undefined): void {
    const lives = this.byPath.get(path) ?? new Map<number, Incarnation>();
    this.byPath.set(path, lives);
    const known = lives.get(generation);
    if (known === undefined) {
      const made = create ?? this.creatorOf(path);
      lives.set(generation, { path, generation, base, create: made, ids: new Map(), seqs: new Map() });
    } else if (create && known.create && create !== known.create && wrote(create) && wrote(known.create)) {
      this.violations.push(`two creations share a generation: ${show(known.create)} and ${show(create)}`);
    }
  }

  /** A life whose creation was never answered: all creations of a path that is no fork ask for the same stream. */
  private creatorOf(path: string): Call<Create> | undefined {
    if (this.isFork(path)) return undefined;
    return this.history.calls.find((call): call is Call<Create> => call.op.path === path && isCreator(call));
  }

  private placeWrite(call: Call<Create | Append>): void {
    const next = nextOf(call)!;
    const life = this.incarnation(call.op.path, next.generation)!;
    for (const [i, id] of call.op.ids.entries()) this.place(call, life, next.seq - call.op.ids.length + i + 1, id);
  }

  private placePage(call: Call<Read>): void {
    const { path } = call.op;
    const next = nextOf(call);
    if (call.result.kind !== "done" || next === undefined) return;
    const { ids = [], offsets } = call.result;
    for (const [i, id] of ids.entries()) {
      const source = this.pathOf(id);
      if (source === undefined || (source !== path && !this.inheritsFrom(path, source))) {
        this.violations.push(`${path} holds ${id}, which no call wrote there: ${show(call)}`);
        continue;
      }
      const isLast = i === ids.length - 1;
      const generation = source === path || isLast ? next.generation : offsets?.[i]?.generation;
      const life = generation === undefined ? this.lifeWith(source, id) : this.incarnation(source, generation);
      if (life) this.place(call, life, next.seq - ids.length + i + 1, id);
    }
  }

  /** The life of a path that has this message, if there is exactly one. */
  private lifeWith(path: string, id: string): Incarnation | undefined {
    const lives = this.incarnationsOf(path);
    const found = lives.filter(({ seqs }) => seqs.has(id));
    return found.length === 1 ? found[0] : lives.length === 1 ? lives[0] : undefined;
  }

  private place(call: Call, life: Incarnation, seq: number, id: string): void {
    const here = `${life.path} at ${showPosition({ generation: life.generation, seq })}`;
    const before = life.ids.get(seq);
    const elsewhere = life.seqs.get(id);
    if (before !== undefined && before !== id) {
      this.violations.push(`${here} held ${before} and now ${id}: ${show(call)}`);
    } else if (elsewhere !== undefined && elsewhere !== seq) {
      this.violations.push(`${here} repeats ${id}, which lies at ${elsewhere} already: ${show(call)}`);
    } else {
      life.ids.set(seq, id);
      life.seqs.set(id, seq);
    }
  }

  /** `calls` are all attempts of one write. It may have happened in several lives of the stream, but only once in each. */
  private findMutations(calls: readonly Call<Create | Append>[]): void {
    const { path, ids } = calls[0]!.op;
    for (const incarnation of this.incarnationsOf(path)) {
      const places = ids.map((id) => incarnation.seqs.get(id));
      const at = places.findIndex((seq) => seq !== undefined);
      if (at < 0) continue;
      const firstSeq = places[at]! - at;
      const isSplit = places.some((seq, i) => seq !== undefined && seq !== firstSeq + i);
      if (isSplit)
        this.violations.push(`the messages of one write do not lie together: ${show(calls[0]!)} at ${places}`);
      const lastSeq = firstSeq + ids.length - 1;
      const acknowledged = calls.find((call) => wrote(call) && nextOf(call)?.generation === incarnation.generation);
      const open = calls.find(({ result }) => result.kind === "unknown");
      const call = acknowledged ?? open;
      if (call === undefined) {
        this.violations.push(`a write was refused and happened all the same: ${show(calls[0]!)}`);
        continue;
      }
      const returned = acknowledged?.returned?.tick ?? Number.POSITIVE_INFINITY;
      this.mutations.push({ call, incarnation, firstSeq, lastSeq, invoked: call.invoked.tick, returned });
    }
  }
}

export function isWrite(call: Call): call is Call<Create | Append> {
  return (call.op.kind === "create" || call.op.kind === "append") && call.op.ids.length > 0;
}

/** Whether this call itself is known to have written, rather than an earlier attempt of it. */
export function wrote({ op, result }: Call<Create | Append>): boolean {
  if (result.kind !== "done") return false;
  if (op.kind === "create") return result.status === 201;
  return op.producer === undefined || result.status === 200;
}

/** Whether it may have created its stream. */
function isCreator(call: Call): boolean {
  return call.op.kind === "create" && (call.result.kind === "unknown" || wrote(call as Call<Create>));
}

function nextOf({ result }: Call): Position | undefined {
  return "next" in result ? result.next : undefined;
}
