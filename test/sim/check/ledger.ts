/**
 * Puts the history of a run together: which lives (incarnations) each path had, which message lies at which place, and which
 * call put it there. Every checker builds on it. What does not fit together is a violation by itself:
 *
 * - one place holds one message, and one message has one place within a life of its stream (at most once, never reordered);
 * - every message was written by somebody, to this path, by a call that was not refused;
 * - the messages of one call lie next to each other, in their order.
 *
 * Offsets are opaque to clients but not to us: (generation, number). Every page ends at an offset and has no holes, so the
 * place of each of its messages follows by counting back; that there are none is for the readers' checker to say.
 */
import { comparePositions, type Position } from "@sluice/protocol";
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

/** A write that has happened: all of its messages, the interval in which it did, and the place of its last message. */
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
  private readonly forkPaths = new Set<string>();
  /** Every attempt to write a message. */
  private readonly writers = new Map<string, Call<Create | Append>[]>();

  constructor(readonly history: History) {
    for (const call of history.calls) if (isWrite(call)) this.noteWriter(call);
    this.findIncarnations();
    for (const call of history.calls) this.placeAll(call);
    for (const [id, calls] of this.writers) if (calls[0]!.op.ids[0] === id) this.findMutations(calls);
  }

  incarnationsOf(path: string): Incarnation[] {
    return [...(this.byPath.get(path)?.values() ?? [])].sort((a, b) => a.generation - b.generation);
  }

  incarnation(path: string, generation: number): Incarnation | undefined {
    return this.byPath.get(path)?.get(generation);
  }

  isFork(path: string): boolean {
    return this.forkPaths.has(path);
  }

  get paths(): string[] {
    return [...this.byPath.keys()];
  }

  writersOf(id: string): readonly Call<Create | Append>[] {
    return this.writers.get(id) ?? [];
  }

  /** Where the message numbered `seq` really lies for a reader of `path` who stands at `at` or before; undefined if unsure. */
  owner(path: string, at: Position, seq: number): Incarnation | undefined {
    const own = this.incarnation(path, at.generation);
    if (own && (!this.isFork(path) || (own.base !== undefined && at.seq > own.base))) {
      return own.base === undefined || seq > own.base ? own : this.inherited(own, seq);
    }
    // The reader stands in what a fork has inherited; of which fork, several may say the same.
    const found = new Set<Incarnation>();
    for (const fork of this.incarnationsOf(path)) {
      const origin = fork.create?.op.fork;
      if (origin === undefined || comparePositions(at, origin.at) > 0) continue;
      const owner = this.owner(origin.source, at, seq);
      if (owner) found.add(owner);
    }
    return found.size === 1 ? [...found][0] : undefined;
  }

  private inherited({ create }: Incarnation, seq: number): Incarnation | undefined {
    const origin = create?.op.fork;
    return origin && this.owner(origin.source, origin.at, seq);
  }

  private noteWriter(call: Call<Create | Append>): void {
    if (call.op.kind === "create" && call.op.fork) this.forkPaths.add(call.op.path);
    for (const id of call.op.ids) {
      const calls = this.writers.get(id);
      if (calls) calls.push(call);
      else this.writers.set(id, [call]);
    }
  }

  private findIncarnations(): void {
    const { calls } = this.history;
    for (const { op, result, ...call } of calls) {
      if (op.kind !== "create" || result.kind !== "done" || result.status !== 201 || !result.next) continue;
      const { generation, seq } = result.next;
      this.add(op.path, generation, seq - op.ids.length, { op, result, ...call });
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

  /** A fork that nobody was told of is found by the message it was created with. */
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

  /** A life that nobody was told the beginning of: all creations of a path that is no fork ask for the same. */
  private creatorOf(path: string): Call<Create> | undefined {
    if (this.isFork(path)) return undefined;
    return this.history.calls.find((call): call is Call<Create> => call.op.path === path && isCreator(call));
  }

  private placeAll(call: Call): void {
    const { op, result } = call;
    if (result.kind !== "done" || result.next === undefined) return;
    if (isWrite(call) && wrote(call)) this.place(call, op.path, result.next, call.op.ids);
    if (op.kind === "read") this.place(call as Call<Read>, op.path, result.next, result.ids ?? []);
  }

  private place(call: Call, path: string, next: Position, ids: readonly string[]): void {
    for (const [i, id] of ids.entries()) {
      const seq = next.seq - ids.length + i + 1;
      const owner = this.owner(path, next, seq);
      if (owner) this.placeOne(call, owner, seq, id);
    }
  }

  private placeOne(call: Call, owner: Incarnation, seq: number, id: string): void {
    const writers = this.writersOf(id);
    const here = `${owner.path} at ${showPosition({ generation: owner.generation, seq })}`;
    if (!writers.some(({ op }) => op.path === owner.path)) {
      this.violations.push(`${here} holds ${id}, which nobody wrote there: ${show(call)}`);
    }
    const before = owner.ids.get(seq);
    const elsewhere = owner.seqs.get(id);
    if (before !== undefined && before !== id) {
      this.violations.push(`${here} held ${before} and now ${id}: ${show(call)}`);
    } else if (elsewhere !== undefined && elsewhere !== seq) {
      this.violations.push(`${here} repeats ${id}, which lies at ${elsewhere} already: ${show(call)}`);
    } else {
      owner.ids.set(seq, id);
      owner.seqs.set(id, seq);
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
      if (isSplit) this.violations.push(`the messages of one write do not lie together: ${show(calls[0]!)} at ${places}`);
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

/** Whether this very call is known to have written, rather than an earlier attempt of it. */
export function wrote({ op, result }: Call<Create | Append>): boolean {
  if (result.kind !== "done") return false;
  if (op.kind === "create") return result.status === 201;
  return op.producer === undefined || result.status === 200;
}

/** Whether it may have brought its stream into being. */
function isCreator(call: Call): boolean {
  return call.op.kind === "create" && (call.result.kind === "unknown" || wrote(call as Call<Create>));
}

function nextOf({ result }: Call): Position | undefined {
  return "next" in result ? result.next : undefined;
}
