/**
 * What a leader knows of its group, what happens to it, and what it asks for. `leader-rules.ts` decides; the leader process
 * performs the effects. Rows of the group's entity keep the part that outlives a leader.
 *
 * Invariants: only the rules change this state. Members and assignments live in memory: a new leader knows none, and its
 * borrowers connect again. Epochs of a term are a range of their own, so no two leaders give the same epoch.
 */
import type { Position } from "@sluice/protocol";
import type { Block } from "../leases/block-row.ts";
import type { LeaseCore, Reason } from "../leases/lease-core.ts";
import { TimerWheel } from "../leases/timer-wheel.ts";
import type { BorrowerAddress, FromLeader, InFlight, Leased, ToLeader } from "./messages.ts";

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
  /** Of a queue: batches that were sent to it. */
  batches: number;
  /** When it sent the newest ping that the leader has got, by the borrower's clock. */
  pingedMs: number;
  /** What its session has delivered and the client has not acknowledged, as that ping said. */
  pending: readonly InFlight[];
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
  /** Of a queue: `marked` as an earlier leader stored it. */
  readonly marked: Position | undefined;
  /** Of a queue. */
  queued: QueuedStream | undefined;
}

/** A stream whose messages are leased one by one. */
export interface QueuedStream {
  readonly core: LeaseCore;
  /** The generation of each message: that of the last entry at or before its number. */
  generations: { readonly from: number; readonly generation: number }[];
  /** The last message that was read of the log. */
  tail: Position;
  /** The last message that this leader or an earlier one has read: acknowledgements and attempts are of messages up to it. */
  marked: Position;
  isReading: boolean;
  /** Nothing lies after `tail`, until the stream's watch says otherwise. */
  isDry: boolean;
}

/** What a leader of a queue knows besides. */
export interface Queue {
  readonly leaseMs: number;
  readonly maxAttempts: number | undefined;
  readonly wheel: TimerWheel<LeaseCore>;
  nextLease: number;
  /** Batches of leases that their borrowers have not confirmed. */
  readonly unconfirmed: Map<string, Batch>;
  /** Settlements that wait for the next commit, and for the one in flight. */
  settling: Settling[];
  storing: readonly Settling[];
  /** Streams with dead messages, and the messages on their way to the dead-letter stream. */
  readonly dying: Set<string>;
  readonly burying: Set<string>;
  /** Where the search for the freest member begins. */
  turn: number;
}

export interface Batch {
  readonly borrower: string;
  readonly batch: number;
  readonly leases: readonly Leased[];
  readonly sinceMs: number;
  sentMs: number;
}

export interface Settling {
  readonly to: BorrowerAddress;
  readonly lease: number;
  readonly path: string;
}

/** Leases per term: their numbers are term * this + 1, + 2 and so on. */
export const LEASES_PER_TERM = 2 ** 32;
const WHEEL_TICK_MS = 20;

/** The row of a stream in the group's entity. */
export interface StreamRow {
  readonly at: Position;
  readonly home?: string | undefined;
  /** Of a queue: the last message that the blocks can say something of. */
  readonly marked?: Position | undefined;
  /** Of a queue: the blocks of acknowledgements that have changed, an undefined one to be dropped. */
  readonly blocks?: ReadonlyMap<number, Block | undefined> | undefined;
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
  /** Undefined if members share whole streams. */
  readonly queue: Queue | undefined;
}

export interface QueueConfig {
  readonly leaseMs: number;
  readonly maxAttempts?: number | undefined;
}

export interface FoundStream {
  readonly path: string;
  /** Where the group begins to consume, if it does not know the stream. */
  readonly from: Position;
  readonly end?: Position | undefined;
  /** The stream is held for the group, so that a deletion of the group must find it. */
  readonly isHeld?: boolean | undefined;
  /** Of a queue: what is stored of acknowledgements above the row's position. */
  readonly blocks?: Iterable<readonly [number, Block]> | undefined;
}

export type LeaderEvent =
  | { readonly type: "told"; readonly from: BorrowerAddress; readonly message: ToLeader }
  /** Streams that the filter matches now, or that are closed now. */
  | { readonly type: "found"; readonly streams: readonly FoundStream[] }
  | { readonly type: "lost"; readonly paths: readonly string[] }
  /** Of a queue: these messages follow the last one that was read. */
  | { readonly type: "read"; readonly path: string; readonly positions: readonly Position[]; readonly isDry: boolean }
  /** Of a queue: the messages up to this one are gone. */
  | { readonly type: "trimmed"; readonly path: string; readonly through: Position }
  | { readonly type: "woken"; readonly path: string }
  /** Of a queue: the message is in the dead-letter stream. */
  | { readonly type: "buried"; readonly path: string; readonly position: Position }
  | { readonly type: "stored" }
  | { readonly type: "store_failed" }
  | { readonly type: "tick" };

export type LeaderEffect =
  | { readonly kind: "send"; readonly to: BorrowerAddress; readonly message: FromLeader }
  /** Commit these rows, an undefined one as removed, and answer with `stored` or `store_failed`. */
  | { readonly kind: "store"; readonly rows: ReadonlyMap<string, StreamRow | undefined> }
  /** Read on after this position, and answer with `read`, `trimmed` or `lost`. */
  | { readonly kind: "read"; readonly path: string; readonly after: Position }
  /** No member is left: nothing need be read or watched. */
  | { readonly kind: "rest" }
  /** Append the message to the dead-letter stream, and answer with `buried`. */
  | {
      readonly kind: "bury";
      readonly path: string;
      readonly position: Position;
      readonly attempts: number;
      readonly why: Reason;
    }
  /** The epochs of this term are used up, or no member is left for long enough: this leader ends. */
  | { readonly kind: "release"; readonly why: "idle" | "epochs" };

/** `grantsFromMs`: now, if no borrower of an earlier leader can be left. */
export function newLeader(
  term: number,
  rows: Iterable<readonly [string, StreamRow]>,
  now: number,
  grantsFromMs = now,
  config?: QueueConfig,
): Leader {
  const streams = new Map<string, GroupStream>();
  const queue = config && newQueue(term, config, now);
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
    queue,
  };
}

function newQueue(term: number, { leaseMs, maxAttempts }: QueueConfig, now: number): Queue {
  return {
    leaseMs,
    maxAttempts,
    wheel: new TimerWheel<LeaseCore>(WHEEL_TICK_MS, now),
    nextLease: term * LEASES_PER_TERM + 1,
    unconfirmed: new Map(),
    settling: [],
    storing: [],
    dying: new Set(),
    burying: new Set(),
    turn: 0,
  };
}

export function newStream(path: string, { at, home, marked }: StreamRow): GroupStream {
  const fresh = { end: undefined, isGone: false, assignment: undefined, queued: undefined };
  return { path, progress: at, stored: at, home, marked, ...fresh };
}

/** Whether the group has processed the stream to its end. Its row stays while the stream exists. */
export function isDone({ end, progress }: GroupStream): boolean {
  return end !== undefined && progress.generation >= end.generation && progress.seq >= end.seq;
}

/** The position of a message of a queue. */
export function positionOf({ generations }: QueuedStream, seq: number): Position {
  let { generation } = generations[0]!;
  for (const one of generations) if (one.from <= seq) generation = one.generation;
  return { generation, seq };
}
