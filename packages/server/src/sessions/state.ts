/**
 * What is stored of sessions and of fan-out, and what follows from it.
 *
 * An entity of kind "session" holds the session and its inbox, so that deleting both is one commit. A session can exist
 * without an inbox.
 *
 *     session       ""         the session: owner, incarnation, the last epoch given out
 *     meta          ""         its life (as a stream's, streams/state.ts): last use, TTL, deleted; the inbox's content type
 *     subscription  stream     epoch, format, and the position copied so far; written with every copy
 *     (the log)                the inbox's messages
 *
 * A stream that sessions follow has a registry, an entity of kind "fanout" under the stream's path. Its log holds the
 * large payloads that copies borrow.
 *
 *     state         ""         the stream's name, the cursor, the number of subscribers
 *     subscriber    session    incarnation and epoch, so that a later session of the same id is not taken for it
 *     laggard       session    the position of a session that missed a round
 *
 * Invariants: every message up to the registry's cursor was copied to every subscriber that is not a laggard. Every
 * laggard has the messages up to its own position. So the copies that are owed follow from these rows and the log.
 */

import { comparePositions, type Position } from "@sluice/protocol";
import { SESSION_PREFIX } from "../core/reserved.ts";
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable } from "../engine/table.ts";
import { streamEntity } from "../streams/state.ts";

export const FANOUT = "fanout";

export type CopyFormat = "raw" | "envelope";

export interface Session {
  /** The `sub` of the client that created it; absent if the client was anonymous. */
  readonly owner?: string | undefined;
  readonly incarnation: string;
  /** The epoch of the newest subscription; the next one is higher by one. */
  readonly epoch: number;
  /** Streams that it follows, including streams that it left but still borrows from. */
  readonly subscriptions: number;
}

export interface Subscription {
  /** The name under which the stream is followed; a later stream at the same path has another. */
  readonly name: string;
  readonly epoch: number;
  readonly since: number;
  readonly format: CopyFormat;
  /** The inbox has every message up to here. */
  readonly at: Position;
  /** The registry may not have it yet. */
  readonly pending?: true | undefined;
  /** Copies in the inbox borrow payloads from the registry, so the registry must be told when the session ends. */
  readonly borrows?: true | undefined;
  /** Unsubscribed; the row stays because copies borrow. */
  readonly left?: true | undefined;
  /** This range contains all messages that retention trimmed from the stream before they could be copied. */
  readonly missed?: { readonly after: Position; readonly through: Position } | undefined;
}

export interface Registry {
  /** The name in the stream's own record. A later stream at the same path has another. */
  readonly name: string;
  /** The log has been fanned out up to here. */
  readonly cursor: Position;
  /** Counts fan-outs; each copy carries the number of its own. */
  readonly seq: number;
  /**
   * Changes whenever the sessions that get copies in a round change. It has the generation of the registry's own log.
   * So a later registry at the same path, or one that a failover set back, never repeats a version.
   */
  readonly version: Position;
  /** Subscribers, laggards included. */
  readonly count: number;
  readonly laggards: number;
  /** Sessions that left and still borrow payloads; their rows stay. */
  readonly departedBorrowers: number;
}

export interface Subscriber {
  readonly incarnation: string;
  readonly epoch: number;
  readonly since: number;
  /** It may borrow payloads from this sequence number of the registry's log on. */
  readonly borrowsFrom: number;
  readonly left?: true | undefined;
}

export interface Laggard {
  readonly at: Position;
}

export const sessionTable = jsonTable<Session>("session");
export const subscriptionTable = jsonTable<Subscription>("subscription");
export const registryTable = jsonTable<Registry>("state", (stored: Registry & { readonly lenders?: number }) => {
  const { lenders, ...registry } = stored;
  return lenders === undefined ? stored : { ...registry, departedBorrowers: lenders };
});
export const subscriberTable = jsonTable<Subscriber>("subscriber");
export const laggardTable = jsonTable<Laggard>("laggard");

export const SESSION_ROW = sessionTable.at("");
export const REGISTRY = registryTable.at("");

export function sessionPath(id: string): string {
  return SESSION_PREFIX + id;
}

export function sessionEntity(project: string, id: string): Entity {
  return streamEntity(project, sessionPath(id));
}

export function sessionIdOf(path: string): string {
  return path.slice(SESSION_PREFIX.length);
}

export function registryEntity(project: string, stream: string): Entity {
  return entity(project, FANOUT, stream);
}

export function isVersion(a: Position | undefined, b: Position | undefined): boolean {
  return a !== undefined && b !== undefined && comparePositions(a, b) === 0;
}

export function isBefore(a: Position, b: Position): boolean {
  return comparePositions(a, b) < 0;
}
