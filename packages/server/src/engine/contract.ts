/**
 * The engine contract: what a keeper needs of a store, and nothing about the rules it runs. Keepers and features call it;
 * `memory`, `disk` and `redis` implement it.
 *
 * An entity has rows (small values in named tables), a log (numbered messages) and a head (what the engine itself knows of the
 * log).
 *
 * Invariants:
 * Atomic:   one commit, all of its effects or none. Nothing spans two entities.
 * Ordered:  the commits of one entity, by rev. A commit applies only onto the rev it names.
 * Durable:  a commit, before its promise resolves. `read`, `rows`, `load`, a conflict and a fence show durable state only:
 *           an answer that rests on a commit waits for that commit, also when another caller made it.
 * A hint:   `watch`, `remind` and `due` may come late, twice or for no change. `list` and `projects` never miss an entity that
 *           existed throughout, and may name one that was just destroyed. `nodes` may list a node that has just died.
 * Lossy:    a message from node to node (`tell`). It may also come twice, late or out of order.
 *
 * One suite (test/contract) runs on every engine, and every engine must agree with `memory`.
 */
import type { Position } from "@sluice/protocol";
import type { Awaitable } from "../core/awaitable.ts";
import type { Metric } from "../core/metric.ts";

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

/** The entity that a key names. Project and kind hold no slash; the id may. */
export function entityOf(key: string): Entity {
  const first = key.indexOf("/");
  const second = key.indexOf("/", first + 1);
  return { project: key.slice(0, first), kind: key.slice(first + 1, second), id: key.slice(second + 1), key };
}

/**
 * Equal revs mean equal state. A rev is opaque and compared for equality only. An engine never gives one rev twice, not even to a
 * later incarnation of the same entity. The exception is 0: the entity does not exist.
 */
export type Rev = number;

/**
 * What an engine itself knows of a log. An engine that detects a lost end of a history raises the generation and numbers on after
 * the last surviving message. So a position only ever grows, while a number alone may fall.
 */
export interface Head {
  /** The generation the next message will carry. */
  readonly generation: number;
  /** The position of the last message, trimmed or not. A reader at the tail stands here. */
  readonly last: Position;
  /** Payload bytes ever appended in this history; trimming does not lower it. */
  readonly bytes: number;
  /** When the last message was appended, 0 before the first. */
  readonly at: number;
  /** Everything at or before this position is trimmed, with the value `bytes` had there. */
  readonly start: Position;
  readonly startBytes: number;
  /** Where the history ended when the engine last detected a lost end; undefined if it never did. */
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
  /** The values of the requested keys, in their order. */
  readonly rows: readonly (Uint8Array | undefined)[];
}

export type Effect =
  /**
   * A new, empty history. `generation` is the one that the snapshot offered, or greater. The commit conflicts if the entity has
   * had this generation or a later one since. The first message will be number `at.seq + 1`.
   */
  | { readonly op: "begin"; readonly generation: number; readonly at: Position }
  /** Numbers follow the last one without a hole, in the head's generation. */
  | { readonly op: "append"; readonly messages: readonly Message[] }
  | { readonly op: "put"; readonly table: string; readonly key: string; readonly value: Uint8Array }
  | { readonly op: "drop"; readonly table: string; readonly key: string }
  /** Readers lose the messages at or before `through` at once. `bytes` is the value of `Head.bytes` at that position. */
  | { readonly op: "trim"; readonly through: Position; readonly bytes: number }
  /** Asks that `due` name this entity at that time. It replaces the entity's earlier reminder; null removes it. */
  | { readonly op: "remind"; readonly atMs: number | null }
  /** Removes head, rows, log and reminder. Must be the last effect of its commit. */
  | { readonly op: "destroy" };

/** Rev and head as of this commit; other callers may have committed since. */
export interface Done {
  readonly kind: "done";
  readonly rev: Rev;
  readonly head: Head;
}

/**
 * Another caller committed first, or the engine itself raised the generation. Carries what `load` would now return for the keys
 * that the commit named.
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
 * Ownership of an entity that must have one keeper in the whole cluster: (epoch, nonce), compared for equality. It ends by
 * release or by time, whether or not another node claims. It does not change the entity's rev.
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
  /** Messages after the requested position, in order, without a hole. Empty only if that position is at the tail or beyond it. */
  readonly messages: readonly LoggedMessage[];
  /** The head that the page was read under. */
  readonly head: Head;
  /** Whether the page reaches `head.last`, or starts beyond it. */
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
  /** The node's own `Engine.node`, and `Held.node` in the claims that it holds. */
  readonly id: string;
  /** By the clock of `Engine.now`: the end of the listing, unless the node renews its record. */
  readonly aliveUntilMs: number;
}

/** How often a node renews its record. Two renewals may fail before the record ends. */
export const NODE_RENEW_MS = 2_000;
/** How long a record lasts after its last renewal. */
export const NODE_ALIVE_MS = 6_000;
/** The longest message that `tell` takes. A larger payload belongs into a log; the message then says where. */
export const MAX_TOLD_BYTES = 65_536;

/** `from` is the node that sent the message. */
export type ToldListener = (bytes: Uint8Array, from: string) => void;

/**
 * The only error that an engine throws on purpose; every other one is a defect. `overloaded` promises that nothing was written:
 * the caller may repeat the call.
 *
 * Clients see `message`. It names a file by its name in the data directory, and no path, address or user of this machine.
 */
export class EngineError extends Error {
  constructor(
    readonly code: "storage-full" | "storage-failed" | "data-damaged" | "overloaded" | "unavailable",
    message: string,
    /** The same for the operator: whole paths, addresses and the system's own words. Logs and the command line show it. */
    readonly explanation: string = message,
  ) {
    super(message);
    this.name = "EngineError";
  }
}

/** Measured by the monotonic clock of this machine, because every clock for dates may be corrected at any moment. */
export interface Deadline {
  readonly ms: number;
  now(): number;
}

export interface Engine {
  /**
   * Whether this process is the only writer, so that a keeper's memory is the truth without another read. Read inside engine/
   * only: `other-nodes.ts` says what follows for features.
   */
  readonly exclusive: boolean;
  /**
   * When a request that waits for this engine is answered that the store is unavailable, whatever its outcome. The engine's own
   * calls end within a few times that. Undefined if the engine waits for this machine only.
   */
  readonly deadline?: Deadline | undefined;
  /**
   * Epoch ms; never falls and never stands still, however a clock is set (`steady-clock.ts`). On a cluster an estimate of the
   * cluster's time, so that nodes with different clocks agree. Safety never rests on it.
   */
  now(): number;

  load(e: Entity, keys: readonly RowKey[]): Awaitable<Snapshot>;
  /**
   * One commit may be in flight per entity and caller. Effects apply in their order; without any, the engine checks only the rev
   * and the owner. The engine retries by itself, and one call applies at most once. If the promise rejects, the outcome is
   * unknown until the entity's next commit completes. The caller then answers its inputs as failed and never runs them again.
   */
  commit(e: Entity, at: CommitAt, effects: readonly Effect[]): Promise<Done | Conflict | Fenced>;
  /** Rows of a table whose key is after `after` (bytewise), in order. */
  rows(e: Entity, table: string, after: string, limit: number): Awaitable<readonly Row[]>;
  /**
   * Messages after `after`: at least one if there is one, then as many as fit into `maxBytes` of payload and the engine's bounds.
   */
  read(e: Entity, after: Position, maxBytes: number): Awaitable<Page>;

  /** `node` is the claimant's `Engine.node`. With `held`, the call renews that ownership, which stays the same one. */
  claim(e: Entity, node: string, ttlMs: number, held?: Owner): Promise<Owner | Held>;
  release(e: Entity, owner: Owner): Promise<void>;

  /**
   * Calls `wake` after every commit to this entity, by this node or another. `wake` must not throw; the engine calls it outside
   * of any commit.
   */
  watch(e: Entity, wake: () => void): Unwatch;
  /** How many shards `due` has. */
  readonly shards: number;
  /** Entities of this shard whose reminder has passed, oldest first. An entity stays due until a commit changes its reminder. */
  due(shard: number, limit: number): Awaitable<readonly Entity[]>;

  /** Ids of the existing entities of a kind, with this prefix, bytewise after `after`. */
  list(project: string, kind: string, prefix: string, after: string, limit: number): Awaitable<Listing>;
  /** The projects that have at least one entity of this kind. */
  projects(kind: string): Awaitable<readonly string[]>;
  /** A fixed window counter: at most `limit` hits per window, counted atomically for all nodes. */
  hit(key: string, limit: number, windowMs: number): Promise<Hit>;

  /**
   * The id of this node, for `claim`, `nodes` and `tell`. It names one opening of an engine and is never given twice. A restarted
   * node has another id, so a message to its earlier life does not reach the later one.
   */
  readonly node: string;
  /**
   * The nodes whose record stands, this one included, in any order. A node writes its record before it takes its first request,
   * renews it every NODE_RENEW_MS, and removes it when it closes. A dead node is listed until NODE_ALIVE_MS after its last
   * renewal. A live node is missing if it has not reached the store for that long. Records expire by the store's clock, never by
   * a node's.
   */
  nodes(): Awaitable<readonly LiveNode[]>;
  /**
   * Sends bytes to a node, which may be this one. Best effort: the message may be lost, come twice, late, or after a later one,
   * but it comes whole or not at all. The call returns before the message is sent and reports nothing about it: a message to an
   * unknown, dead or unreachable node is lost in silence. The caller may reuse the bytes at once. Throws only on more than
   * MAX_TOLD_BYTES.
   */
  tell(node: string, bytes: Uint8Array): void;
  /**
   * Calls `listener` with every message that reaches this node. `listener` must not throw; the engine calls it outside of `tell`.
   */
  onTold(listener: ToldListener): Unwatch;

  /** Undefined while the engine accepts writes; otherwise the reason why it does not. */
  health(): EngineError | undefined;
  /**
   * Whether commits arrive faster than the engine stores them away, so that soon every commit must wait. Background work should
   * then pause and leave the remaining room to requests. A hint.
   */
  isBehind?(): boolean;
  /** The metrics of this engine alone, beyond those that every engine has. */
  metrics?(): readonly Metric[];
  /** Flushes and closes. No call may follow. */
  close(): Promise<void>;
}
