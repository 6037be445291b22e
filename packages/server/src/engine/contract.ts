/**
 * The engine contract: what a keeper needs of a store, and nothing about the rules it runs.
 *
 * Three things live in an entity: its rows (small values in named tables), its log (messages, numbered) and its head (what
 * the engine itself knows of the log). An engine loads them, commits changes to them, and reads the log.
 *
 * What is atomic:  one commit, all of its effects or none. Nothing spans two entities.
 * What is ordered: the commits of one entity, by rev. A commit applies only onto the rev it names.
 * What is durable: a commit, before its promise resolves. `read`, `rows`, `load`, a conflict and a fence show durable state
 *                  only: an answer that rests on a commit waits for that commit, another caller's included.
 * What is a hint:  `watch`, `remind` and `due` may come late, twice or for nothing. `list` and `projects` never miss what
 *                  existed throughout, and may name what has just gone. `nodes` may list a node that has just died.
 * What may be lost: a message from node to node (`tell`). It may also come twice, late or out of order.
 *
 * One suite (test/contract) runs on every engine, and every engine must agree with `memory`.
 */
import type { Position } from "@sluice/protocol";
import type { Metric } from "../core/metric.ts";

export type Awaitable<T> = T | Promise<T>;

/** The unit of atomicity: one Redis slot, one key prefix on disk. `key` names it uniquely and is made by `entity()`. */
export interface Entity {
  readonly project: string;
  readonly kind: string;
  readonly id: string;
  readonly key: string;
}

export function entity(project: string, kind: string, id: string): Entity {
  return { project, kind, id, key: `${project}/${kind}/${id}` };
}

/** The entity a key names. Project and kind hold no slash; the id may. */
export function entityOf(key: string): Entity {
  const first = key.indexOf("/");
  const second = key.indexOf("/", first + 1);
  return { project: key.slice(0, first), kind: key.slice(first + 1, second), id: key.slice(second + 1), key };
}

/**
 * Equal revs mean equal state. Opaque, compared for equality only, and never given twice, not even to a later incarnation
 * of the same entity; except 0, which means that the entity does not exist.
 */
export type Rev = number;

/**
 * What an engine knows of a log by itself. An engine that finds that the end of a history was lost raises the generation, and
 * numbers go on after the last message that survived: a position still only ever grows, a number alone may fall.
 */
export interface Head {
  /** The generation the next message will carry. */
  readonly generation: number;
  /** The position of the last message, trimmed or not: what a reader at the tail stands at. */
  readonly last: Position;
  /** Payload bytes ever appended in this history; trimming does not lower it. */
  readonly bytes: number;
  /** When the last message was appended, 0 before the first. */
  readonly at: number;
  /** Everything at or before this position is trimmed, with the value `bytes` had there. */
  readonly start: Position;
  readonly startBytes: number;
  /** Where the history ended when the engine last found that its end was lost; undefined if it never did. */
  readonly survived?: Position | undefined;
}

export const NO_HEAD: Head = {
  generation: 0,
  last: { generation: 0, seq: 0 },
  bytes: 0,
  at: 0,
  start: { generation: 0, seq: 0 },
  startBytes: 0,
};

export interface Message {
  readonly payload: Uint8Array;
  /** Publish time, epoch ms. */
  readonly at: number;
  readonly id?: string | undefined;
  readonly key?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
}

export interface LoggedMessage extends Message {
  readonly position: Position;
}

export interface RowKey {
  readonly table: string;
  readonly key: string;
}

export interface Row {
  readonly key: string;
  readonly value: Uint8Array;
}

export interface Snapshot {
  readonly rev: Rev;
  readonly head: Head;
  /** Greater than every generation this entity ever had, destroyed incarnations included. */
  readonly nextGeneration: number;
  /** The values of the keys asked for, in their order. */
  readonly rows: readonly (Uint8Array | undefined)[];
}

export type Effect =
  /**
   * A new, empty history. `generation` is what the snapshot offered, or greater; if the entity has had it or a later one since, the
   * commit conflicts. The first message will be number `at.seq + 1`.
   */
  | { readonly op: "begin"; readonly generation: number; readonly at: Position }
  /** Numbers follow the last one without a hole, in the head's generation. */
  | { readonly op: "append"; readonly messages: readonly Message[] }
  | { readonly op: "put"; readonly table: string; readonly key: string; readonly value: Uint8Array }
  | { readonly op: "drop"; readonly table: string; readonly key: string }
  /** Messages at or before `through` are gone for readers at once; `bytes` is what `Head.bytes` was there. */
  | { readonly op: "trim"; readonly through: Position; readonly bytes: number }
  /** Asks that `due` names this entity at that time; replaces the entity's earlier reminder; null forgets it. */
  | { readonly op: "remind"; readonly atMs: number | null }
  /** Head, rows, log and reminder are gone. Must be the last effect of its commit. */
  | { readonly op: "destroy" };

/** Rev and head as of this commit; others may have committed since. */
export interface Done {
  readonly kind: "done";
  readonly rev: Rev;
  readonly head: Head;
}

/**
 * Another caller committed first, or the engine itself raised the generation. Carries what `load` would now return for the
 * keys the commit named.
 */
export interface Conflict {
  readonly kind: "conflict";
  readonly snapshot: Snapshot;
}

/** The caller's ownership ended; nothing was written. */
export interface Fenced {
  readonly kind: "fenced";
}

/**
 * Ownership of what must have one keeper in the whole cluster: (epoch, nonce), compared for equality. It ends by release or
 * by time, whether or not another node claims; it does not change the entity's rev.
 */
export interface Owner {
  readonly kind: "owner";
  readonly epoch: number;
  readonly nonce: string;
}

export interface Held {
  readonly kind: "held";
  readonly node: string;
  readonly untilMs: number;
}

export interface CommitAt {
  readonly rev: Rev;
  /** When given, the commit applies only while this ownership stands. */
  readonly owner?: Owner | undefined;
  /** The rows a conflict should carry. */
  readonly keys?: readonly RowKey[] | undefined;
}

export interface Page {
  /** Messages after the asked position, in order, without a hole. Empty only at the tail, or when asked beyond it. */
  readonly messages: readonly LoggedMessage[];
  /** The head that the page was read under. */
  readonly head: Head;
  /** Whether the page reaches `head.last`, or was asked beyond it. */
  readonly atTail: boolean;
}

export interface Listing {
  readonly ids: readonly string[];
  /** Pass as `after` for the next page; undefined at the end. */
  readonly next: string | undefined;
}

export type Hit =
  | { readonly kind: "allowed"; readonly remaining: number }
  | { readonly kind: "limited"; readonly retryAfterMs: number };

export type Unwatch = () => void;

/** A node that is running, or was until a moment ago. */
export interface LiveNode {
  /** What the node calls itself in `Engine.node`, and `Held.node` when it owns something. */
  readonly id: string;
  /** By the clock of `Engine.now`: without a renewal the node is listed no longer. */
  readonly aliveUntilMs: number;
}

/** How often a node renews its record. Two renewals may fail before the record ends. */
export const NODE_RENEW_MS = 2_000;
/** How long a record lasts after its last renewal. */
export const NODE_ALIVE_MS = 6_000;
/** The longest message that `tell` takes. Larger things belong into a log; the message then says where. */
export const MAX_TOLD_BYTES = 65_536;

/** `from` is the node that told. */
export type ToldListener = (bytes: Uint8Array, from: string) => void;

/** Thrown by engines; everything else that an engine throws is a defect. */
export class EngineError extends Error {
  constructor(
    readonly code: "storage-full" | "storage-failed" | "data-damaged" | "overloaded" | "unavailable",
    message: string,
  ) {
    super(message);
    this.name = "EngineError";
  }
}

/** Measured by a clock of this machine: what the cluster's time is may have to be corrected. */
export interface Deadline {
  readonly ms: number;
  now(): number;
}

export interface Engine {
  /**
   * Whether this process is the only writer, so that what a keeper remembers is the truth without asking again. Read inside
   * engine/ only: what follows from it for features is in `other-nodes.ts`.
   */
  readonly exclusive: boolean;
  /**
   * When a request that waits for this engine is told that the store is unavailable, whatever became of it; what is asked of the
   * engine ends by itself within a few times that. Undefined where nothing but this machine is waited for.
   */
  readonly deadline?: Deadline | undefined;
  /** Epoch ms. On a cluster an estimate of the cluster's time, so that nodes with different clocks agree; safety
   * never rests on it. */
  now(): number;

  load(e: Entity, keys: readonly RowKey[]): Awaitable<Snapshot>;
  /**
   * One commit may be in flight per entity and caller. Effects apply in their order; without any, only the rev and the
   * owner are checked. The engine retries by itself, and one call applies at most once. When the promise rejects, the
   * outcome stays open until a later commit of this entity is done: its inputs are answered as failed and never run again.
   */
  commit(e: Entity, at: CommitAt, effects: readonly Effect[]): Promise<Done | Conflict | Fenced>;
  /** Rows of a table whose key is after `after` (bytewise), in order. */
  rows(e: Entity, table: string, after: string, limit: number): Awaitable<readonly Row[]>;
  /**
   * Messages after `after`, at least one when there is one, then as many as fit into `maxBytes` of payload; at most
   * as many as the bounds of the engine say.
   */
  read(e: Entity, after: Position, maxBytes: number): Awaitable<Page>;

  /** `node` is the claimant's `Engine.node`. With `held`, that ownership is renewed; it stays the same one. */
  claim(e: Entity, node: string, ttlMs: number, held?: Owner): Promise<Owner | Held>;
  release(e: Entity, owner: Owner): Promise<void>;

  /** Calls `wake` after commits to this entity by anyone. Must not throw; called outside of any commit. */
  watch(e: Entity, wake: () => void): Unwatch;
  /** How many shards `due` has. */
  readonly shards: number;
  /** Entities of this shard whose reminder has passed, oldest first. They stay due until a commit changes the reminder. */
  due(shard: number, limit: number): Awaitable<readonly Entity[]>;

  /** Ids of the entities of a kind that exist, with this prefix, bytewise after `after`. */
  list(project: string, kind: string, prefix: string, after: string, limit: number): Awaitable<Listing>;
  /** The projects that have at least one entity of this kind. */
  projects(kind: string): Awaitable<readonly string[]>;
  /** A fixed window counter: at most `limit` hits per window, counted atomically for all nodes. */
  hit(key: string, limit: number, windowMs: number): Promise<Hit>;

  /**
   * The id of this node, in `claim`, in `nodes` and for `tell`. It names one opening of an engine and is never given twice: a
   * node that restarts has another, so nothing meant for its earlier life reaches the later one.
   */
  readonly node: string;
  /**
   * The nodes whose record stands, this one included, in any order. A node writes its record before it takes its first
   * request, renews it every NODE_RENEW_MS, and removes it when it closes. A node that dies is listed until NODE_ALIVE_MS after
   * its last renewal. A node that lives is missing while it has not reached the store for that long. Records expire by the
   * store's clock, never by a node's.
   */
  nodes(): Awaitable<readonly LiveNode[]>;
  /**
   * Sends bytes to a node, which may be this one. Best effort: the message may be lost, come twice, late, or after a later one;
   * it comes whole or not at all. Returns before it was sent, and says nothing about its fate: a message to a node that is
   * unknown, dead or unreachable is lost in silence. The bytes are the caller's again at once. Throws only on more than
   * MAX_TOLD_BYTES.
   */
  tell(node: string, bytes: Uint8Array): void;
  /** Calls `listener` with every message to this node that arrives. Must not throw; called outside of `tell`. */
  onTold(listener: ToldListener): Unwatch;

  /** Undefined while writes are accepted; otherwise why not. */
  health(): EngineError | undefined;
  /**
   * Whether more is committed than is put away in time. Soon every commit will have to wait; so background work should
   * leave the room that there still is to the others. A hint.
   */
  isBehind?(): boolean;
  /** What the engine counts of itself, beyond what every engine has. */
  metrics?(): readonly Metric[];
  /** Flushes and closes. Nothing may be called afterwards. */
  close(): Promise<void>;
}
