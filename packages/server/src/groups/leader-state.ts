/**
 * What a leader knows of its group, what happens to it, and what it asks for. `leader-rules.ts` decides; the leader process
 * performs the effects. Rows of the group's entity keep the part that outlives a leader.
 *
 * Invariants: only the rules change this state. Members and assignments live in memory: a new leader knows none, and its
 * borrowers connect again. Epochs of a term are a range of their own, so no two leaders give the same epoch.
 */
import type { Position } from "@sluice/protocol";
import type { BorrowerAddress, FromLeader, ToLeader } from "./messages.ts";

/** Grants per term: their numbers are term * this + 1, + 2 and so on. A leader that needs more starts another term. */
export const EPOCHS_PER_TERM = 2 ** 20;

export interface Member extends BorrowerAddress {
  /** The name of the consumer. */
  readonly member: string;
  /** When the leader last heard of this borrower. */
  heardMs: number;
  /** Whether it has pinged. Before that it gets no stream, because its request to connect may be an old one. */
  isConfirmed: boolean;
  /** Of a queue: how many messages the member takes, and has. */
  readonly credit: number;
  outstanding: number;
}

/**
 * `granting`: the borrower has not answered the grant. `granted`: it has. `revoking`: the borrower drains. `revoked`: its final
 * progress is known, and the borrower has not said that it let go.
 */
export type AssignmentStatus = "granting" | "granted" | "revoking" | "revoked";

export interface Assignment {
  readonly borrower: string;
  readonly epoch: number;
  status: AssignmentStatus;
  /** When it got its status. */
  sinceMs: number;
  /** When the message that waits for an answer was last sent; undefined while it waits for a commit instead. */
  sentMs: number | undefined;
}

export interface GroupStream {
  readonly path: string;
  /** Processed by clients up to here, as borrowers reported. */
  progress: Position;
  /** The part of it that is durable. */
  stored: Position;
  /** The member that held the stream last. */
  home: string | undefined;
  /** Where the stream ends, if it is closed. */
  end: Position | undefined;
  /** The stream does not exist any more, and its assignment is all that is left. */
  isGone: boolean;
  assignment: Assignment | undefined;
}

/** The row of a stream in the group's entity. */
export interface StreamRow {
  readonly at: Position;
  readonly home?: string | undefined;
}

export interface Leader {
  readonly term: number;
  nextEpoch: number;
  readonly members: Map<string, Member>;
  readonly streams: Map<string, GroupStream>;
  /** Paths whose assignment waits for an answer. */
  readonly unsettled: Set<string>;
  /** Paths whose rows differ from the store, and when they are to be stored. */
  readonly dirty: Set<string>;
  storeAtMs: number | undefined;
  /** The commit in flight: at most one. */
  storing: ReadonlyMap<string, StreamRow | undefined> | undefined;
  /** Borrowers that have left: each is told once what it reported is durable. */
  leavers: BorrowerAddress[];
  storingLeavers: readonly BorrowerAddress[];
  reassignAtMs: number | undefined;
  /** Borrowers of an earlier leader may act until then. */
  readonly grantsFromMs: number;
  tickAtMs: number;
  /** Since when there is no member. */
  emptySinceMs: number | undefined;
  isReleased: boolean;
}

export interface FoundStream {
  readonly path: string;
  /** Where the group begins to consume, if it does not know the stream. */
  readonly from: Position;
  readonly end?: Position | undefined;
  /** The stream is held for the group, so that a deletion of the group must find it. */
  readonly isHeld?: boolean | undefined;
}

export type LeaderEvent =
  | { readonly type: "told"; readonly from: BorrowerAddress; readonly message: ToLeader }
  /** Streams that the filter matches now, or that are closed now. */
  | { readonly type: "found"; readonly streams: readonly FoundStream[] }
  | { readonly type: "lost"; readonly paths: readonly string[] }
  | { readonly type: "stored" }
  | { readonly type: "store_failed" }
  | { readonly type: "tick" };

export type LeaderEffect =
  | { readonly kind: "send"; readonly to: BorrowerAddress; readonly message: FromLeader }
  /** Commit these rows, an undefined one as removed, and answer with `stored` or `store_failed`. */
  | { readonly kind: "store"; readonly rows: ReadonlyMap<string, StreamRow | undefined> }
  /** The epochs of this term are used up, or no member is left for long enough: this leader ends. */
  | { readonly kind: "release"; readonly why: "idle" | "epochs" };

/** `grantsFromMs`: now, if no borrower of an earlier leader can be left. */
export function newLeader(
  term: number,
  rows: Iterable<readonly [string, StreamRow]>,
  now: number,
  grantsFromMs = now,
): Leader {
  const streams = new Map<string, GroupStream>();
  for (const [path, row] of rows) streams.set(path, newStream(path, row));
  return {
    term,
    nextEpoch: term * EPOCHS_PER_TERM + 1,
    members: new Map(),
    streams,
    unsettled: new Set(),
    dirty: new Set(),
    storeAtMs: undefined,
    storing: undefined,
    leavers: [],
    storingLeavers: [],
    reassignAtMs: undefined,
    grantsFromMs,
    tickAtMs: now,
    emptySinceMs: now,
    isReleased: false,
  };
}

export function newStream(path: string, { at, home }: StreamRow): GroupStream {
  return { path, progress: at, stored: at, home, end: undefined, isGone: false, assignment: undefined };
}

/** Whether the group has processed the stream to its end. Its row stays while the stream exists. */
export function isDone({ end, progress }: GroupStream): boolean {
  return end !== undefined && progress.generation >= end.generation && progress.seq >= end.seq;
}
