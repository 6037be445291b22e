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

/** The most streams of one message: far below the limit of `tell`, also with the longest paths. */
export const MAX_LISTED = 25;

export type ToLeader =
  /** `credit`: of a queue, how many messages the member takes at a time. */
  | { readonly type: "leader_wanted"; readonly member: string; readonly credit?: number | undefined }
  /** `sentMs` is by the borrower's clock; the answer repeats it. */
  | { readonly type: "ping"; readonly sentMs: number }
  | { readonly type: "update_progress"; readonly progress: readonly Progress[] }
  | ({ readonly type: "revoke_finished" } & Granted)
  | Disconnect;

/** With the progress that is not confirmed yet. `isGraceful`: the member has unsubscribed. */
export interface Disconnect {
  readonly type: "disconnect";
  readonly progress: readonly Progress[];
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
  /** This progress is durable. */
  | { readonly type: "update_progress_response"; readonly progress: readonly Progress[] }
  /** The borrower is forgotten, and all of its progress is durable. */
  | { readonly type: "disconnect_response" }
  /** The leader does not know this borrower. */
  | { readonly type: "invalidate" };
