/**
 * What is stored of Live. README.md says how the parts work together.
 *
 * A session's entity (kind "session") also holds what its tab follows and how far the tab has come. Live adds two tables to it:
 *
 *     live        ""         a version that every change of the set of subscriptions raises; the nonce of the newest connection
 *     pointer     stream     epoch, the stream's name, the last offset that the client has processed
 *
 * A stream that tabs follow has a roll, an entity of kind "live" under the stream's path:
 *
 *     roll        ""         the number of subscribers, where the reconciliation stands
 *     subscriber  session    incarnation and epoch of the subscription
 *
 * Invariants: a pointer moves only on its client's word, and only forward. A subscription changes in the session first: its
 * pointer decides. The roll follows, serves counts and the end of a stream, and is reconciled with the pointers.
 */
import type { Position } from "@sluice/protocol";
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable } from "../engine/table.ts";

export const ROLL = "live";

/** The name of Live among the followers of a stream. */
export const LIVE_FOLLOWER = "live";

/** What a session's connections share. */
export interface Live {
  /** Raised by every change of the set of subscriptions. The epoch of a subscription is the version that began it. */
  readonly version: number;
  readonly pointers: number;
  /** How many connections were opened, and the nonce of the last one. Any other connection of the session is displaced. */
  readonly connections: number;
  readonly nonce?: string | undefined;
  /** When the newest token of this session ends. Epoch ms. */
  readonly tokenUntilMs?: number | undefined;
}

export interface Pointer {
  readonly epoch: number;
  /** The stream's name for Live; a later stream at the same path has another. */
  readonly name: string;
  /** The client has processed everything up to here. */
  readonly at: Position;
  readonly since: number;
  /** The client wants to be shown to the others on this stream, and to be told of them. */
  readonly presence?: { readonly state?: unknown } | undefined;
  /** The version at which the client last subscribed. A hub that has parked the subscription resumes it then. */
  readonly asked: number;
}

export interface Roll {
  readonly count: number;
  /** The reconciliation has checked the subscribers up to this session. */
  readonly checked: string;
}

export interface Subscriber {
  /** Of the session, so that a later session of the same id is not taken for it. */
  readonly incarnation: string;
  readonly epoch: number;
}

export const liveTable = jsonTable<Live>("live");
export const pointerTable = jsonTable<Pointer>("pointer");
export const rollTable = jsonTable<Roll>("roll");
export const subscriberTable = jsonTable<Subscriber>("subscriber");

export const LIVE_ROW = liveTable.at("");
export const ROLL_ROW = rollTable.at("");

export function rollEntity(project: string, stream: string): Entity {
  return entity(project, ROLL, stream);
}
