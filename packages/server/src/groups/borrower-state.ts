/**
 * What a borrower knows, what happens to it, and what it asks for. `borrower-rules.ts` decides; the agent performs the effects.
 *
 * Invariants: only the rules change a borrower. It lives in memory: a lost borrower is replaced by a new one with another id.
 */
import type { Position } from "@sluice/protocol";
import type {
  Extension,
  FromLeader,
  Granted,
  LeaderAddress,
  Leased,
  Progress,
  Settlement,
  ToLeader,
} from "./messages.ts";

export type BorrowerStatus = "connecting" | "connected" | "unsubscribing" | "destroyed";

export interface BorrowedStream {
  readonly epoch: number;
  status: "granted" | "revoking";
  /** What the session has reported, and how much of it is durable. */
  progress: Position;
  stored: Position;
  isFinal: boolean;
  end: Position | undefined;
  isGone: boolean;
}

/** A message of a queue that this borrower has. */
export interface BorrowedLease {
  readonly leased: Leased;
  settlement: Settlement | undefined;
}

export interface Borrower {
  readonly member: string;
  /** Of a queue: how many messages the member takes. */
  readonly credit: number | undefined;
  /** Of a queue, by the number of the lease. */
  readonly leases: Map<number, BorrowedLease>;
  /** Batches of leases that have come: all up to `through`, and these. */
  readonly batches: { through: number; readonly later: Set<number> };
  status: BorrowerStatus;
  leader: LeaderAddress | undefined;
  readonly streams: Map<string, BorrowedStream>;
  /** By stream, the last grant that is over: a late repetition of it must not install the stream again. */
  readonly finished: Map<string, number>;
  /** Whether `disconnect` was sent, so that only its answer is missing. */
  isLeaving: boolean;
  findAtMs: number;
  pingAtMs: number;
  connectedMs: number;
  /**
   * When the newest ping was sent that the leader has answered. Not when the answer came: that may have been on its way for
   * longer than the leader has been one.
   */
  answeredMs: number;
  /** A borrower that was late itself waits at least until then for an answer. */
  patientUntilMs: number;
  resendAtMs: number | undefined;
  leaveUntilMs: number;
}

export type BorrowerEvent =
  | { readonly type: "told"; readonly leader: LeaderAddress; readonly message: FromLeader }
  | { readonly type: "on_stream_progress"; readonly progress: readonly Progress[] }
  | { readonly type: "on_settle"; readonly settlements: readonly Settlement[] }
  | { readonly type: "on_extend"; readonly extensions: readonly Extension[] }
  | { readonly type: "on_unsubscribe" }
  | { readonly type: "on_disconnect" }
  | { readonly type: "tick" };

export type BorrowerEffect =
  /** Without a leader the message goes to the leader registry of this node. */
  | { readonly kind: "send"; readonly leader: LeaderAddress | undefined; readonly message: ToLeader }
  | { readonly kind: "connected" }
  /** The leader has answered again: the session may deliver. */
  | { readonly kind: "resumed" }
  /** The session delivers the messages after `position`. */
  | ({ readonly kind: "granted"; readonly position: Position } & Granted)
  /** The session delivers no more of the stream, and reports when nothing is in flight. */
  | ({ readonly kind: "revoking" } & Granted)
  | ({ readonly kind: "revoked" } & Granted)
  | ({ readonly kind: "acked"; readonly position: Position } & Granted)
  /** The session delivers this message, before `untilMs` or not at all. */
  | ({ readonly kind: "leased"; readonly untilMs: number } & Leased)
  /** The settlement is durable; `isGone`: the lease was over before. */
  | ({ readonly kind: "settled"; readonly isGone: boolean } & Leased)
  /** Of a queue: messages between these positions are gone. */
  | { readonly kind: "gap"; readonly stream: string; readonly after: Position; readonly through: Position }
  /** The borrower is over. `isRestart`: the subscription stands, and the agent makes a new borrower for it. */
  | { readonly kind: "destroyed"; readonly isRestart: boolean };

export function newBorrower(member: string, now: number, credit?: number): Borrower {
  return {
    member,
    credit,
    leases: new Map(),
    batches: { through: 0, later: new Set() },
    status: "connecting",
    leader: undefined,
    streams: new Map(),
    finished: new Map(),
    isLeaving: false,
    findAtMs: now,
    pingAtMs: 0,
    connectedMs: 0,
    answeredMs: Number.NEGATIVE_INFINITY,
    patientUntilMs: 0,
    resendAtMs: undefined,
    leaveUntilMs: 0,
  };
}
