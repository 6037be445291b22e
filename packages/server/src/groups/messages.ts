/**
 * The messages between borrowers and leaders. Both machines speak in these; agents and leaders on different nodes carry them
 * through `tell`.
 *
 * Invariants: every message may be lost, doubled, delayed or reordered. A message about a stream carries the epoch of its grant,
 * and a leader never gives one epoch twice. A message of a leader carries its term, which grows with every leader of the group.
 */
import type { Position } from "@sluice/protocol";

/** A borrower as its leader knows it. The id is new for each borrower; the member's name outlives them. */
export interface BorrowerAddress {
  readonly id: string;
  readonly node: string;
}

export interface LeaderAddress {
  readonly node: string;
  readonly term: number;
}

/** One grant of a stream. */
export interface Granted {
  readonly stream: string;
  readonly epoch: number;
}

/** A client has processed the stream up to and including `position`. */
export interface Progress extends Granted {
  readonly position: Position;
  /** No message of this grant is in flight, and none will be delivered any more. */
  readonly isFinal?: boolean | undefined;
  /** Where the stream ends: it is closed. */
  readonly end?: Position | undefined;
  /** The stream does not exist any more. */
  readonly isGone?: boolean | undefined;
}

/** A message of a queue that is leased to a borrower. */
export interface Leased {
  readonly stream: string;
  readonly position: Position;
  /** The number of the lease, by which it is settled. */
  readonly lease: number;
  readonly attempt: number;
}

/** What became of a leased message. */
export interface Settlement extends Omit<Leased, "attempt"> {
  readonly verdict: "ack" | "nack";
  /** Of a nack: no other attempt before that. */
  readonly delayMs?: number | undefined;
}

export interface Extension extends Omit<Leased, "attempt"> {
  readonly leaseMs: number;
}

/** How many messages of a grant are delivered and not acknowledged. For the operator only. */
export interface InFlight extends Granted {
  readonly count: number;
}

/** The most entries of one message: far below the limit of `tell`, also with the longest paths. */
export const MAX_LISTED = 25;

export type ToLeader =
  /** `credit`: of a queue, how many messages the member takes at a time. */
  | { readonly type: "leader_wanted"; readonly member: string; readonly credit?: number | undefined }
  /** `sentMs` is by the borrower's clock; the answer repeats it. `pending`: the streams with the most in flight. */
  | { readonly type: "ping"; readonly sentMs: number; readonly pending?: readonly InFlight[] | undefined }
  | { readonly type: "update_progress"; readonly progress: readonly Progress[] }
  | ({ readonly type: "revoke_finished" } & Granted)
  /** The messages of this batch have arrived. */
  | { readonly type: "leased"; readonly batch: number }
  | { readonly type: "settle"; readonly settlements: readonly Settlement[] }
  | { readonly type: "extend"; readonly extensions: readonly Extension[] }
  | Disconnect;

/** With the progress that is not confirmed yet. `isGraceful`: the member has unsubscribed. */
export interface Disconnect {
  readonly type: "disconnect";
  readonly progress: readonly Progress[];
  readonly settlements?: readonly Settlement[] | undefined;
  readonly isGraceful?: boolean | undefined;
}

export type FromLeader =
  | { readonly type: "leader_connect_response" }
  | { readonly type: "ping_response"; readonly sentMs: number }
  /** The borrower delivers the messages after `position`. */
  | ({ readonly type: "grant"; readonly position: Position } & Granted)
  | ({ readonly type: "revoke" } & Granted)
  /** The stream is taken away, and the progress up to `position` is durable. */
  | ({ readonly type: "revoked"; readonly position: Position } & Granted)
  /**
   * Messages of a queue. A batch counts once, however often it comes. The leases began after the ping that the borrower sent at
   * `sinceMs`, by its own clock.
   */
  | {
      readonly type: "lease";
      readonly batch: number;
      readonly leases: readonly Leased[];
      readonly sinceMs: number;
      readonly leaseMs: number;
    }
  /** What these leases were settled with is durable; `gone`: the lease was over before. */
  | { readonly type: "settled"; readonly leases: readonly { readonly lease: number; readonly isGone: boolean }[] }
  /** Of a queue: messages between these positions are gone before they were processed. Sent once, so it may be lost or doubled. */
  | { readonly type: "gap"; readonly stream: string; readonly after: Position; readonly through: Position }
  /** This progress is durable. */
  | { readonly type: "update_progress_response"; readonly progress: readonly Progress[] }
  /** The borrower is forgotten, and all of its progress is durable. */
  | { readonly type: "disconnect_response" }
  /** The leader does not know this borrower. */
  | { readonly type: "invalidate" };
