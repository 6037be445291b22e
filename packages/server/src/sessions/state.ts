/**
 * What is stored of sessions and of fan-out, and what can be read off it.
 *
 * An entity of kind "session" holds three things, so that deleting them is one step: the session itself, its inbox, and (for
 * live subscriptions, when they come) its pointers. The first can exist without the others.
 *
 *   session       ""         the session: owner, incarnation, the last epoch given out
 *   meta          ""         its life (as a stream's, streams/state.ts): last use, TTL, deleted; and the inbox's content type
 *   subscription  stream     the inbox: epoch, format, and how far the stream has been copied; written with every copy
 *   (the log)                the inbox's messages
 *
 * A stream that sessions follow has a registry, an entity of kind "fanout" under the stream's path. Its log holds the large
 * payloads that copies borrow.
 *
 *   state         ""         whom it belongs to, how far the stream is fanned out, how many subscribe
 *   subscriber    session    incarnation and epoch, so that a later session of the same id is not taken for it
 *   laggard       session    how far a session is that could not be copied to when the others were
 *
 * What must stay true: every position at or before the registry's cursor has been copied to every subscriber that is not a
 * laggard; every laggard has been copied to up to its own position. So what is owed follows from these rows and the log.
 */

import { comparePositions, type Position } from "@sluice/protocol";
import { SESSION_PREFIX } from "../core/reserved.ts";
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable } from "../engine/table.ts";
import { streamEntity } from "../streams/state.ts";

export const FANOUT = "fanout";

export type CopyFormat = "raw" | "envelope";

export interface Session {
  /** The `sub` of the client that made it; absent when the client was anonymous. */
  readonly owner?: string | undefined;
  readonly incarnation: string;
  /** The epoch of the newest subscription; the next gets the one after it. */
  readonly epoch: number;
  /** How many streams it follows, those that it has left but borrows from included. */
  readonly subscriptions: number;
}

export interface Subscription {
  /** The name under which the stream is followed; a later stream of the same path has another. */
  readonly name: string;
  readonly epoch: number;
  readonly since: number;
  readonly format: CopyFormat;
  /** Everything up to here is in the inbox. */
  readonly at: Position;
  /** The registry may not know of it yet. */
  readonly pending?: true | undefined;
  /** Copies in the inbox borrow payloads from the registry, so that the registry must hear when the session ends. */
  readonly borrows?: true | undefined;
  /** Unsubscribed, and only here because it borrows. */
  readonly left?: true | undefined;
  /** Within this lies all that retention took from the stream before it could be copied. */
  readonly missed?: { readonly after: Position; readonly through: Position } | undefined;
}

export interface Registry {
  /** The name in the stream's own record. A stream of the same path that came later has another. */
  readonly name: string;
  /** Up to here the log has been fanned out. */
  readonly cursor: Position;
  /** Counts fan-outs; each copy carries the number of its own. */
  readonly seq: number;
  /**
   * Changes whenever the sessions that get copies in a round change. It has the generation of the registry's own log, so that a later
   * registry of the same path, or one that a failover has set back, never has a version that this one had.
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
  /** It may borrow payloads from this number of the registry's log on. */
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
