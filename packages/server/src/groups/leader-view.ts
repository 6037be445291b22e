/**
 * What a leader knows of its group, in a form that travels to other nodes: members, streams, and what is in flight. The admin
 * routes and the survey of lag build on it. Pure.
 *
 * Invariants: the positions in it are durable. It lists MAX_VIEWED streams at most and says so.
 */
import type { Position } from "@sluice/protocol";
import { type GroupStream, type Leader, type Member, positionOf } from "./leader-state.ts";

export const MAX_VIEWED = 5_000;

export interface StreamView {
  readonly path: string;
  /** The status of its assignment; `free` without one. */
  readonly status: string;
  /** The id of the borrower that holds it. */
  readonly borrower: string | null;
  readonly at: Position;
  /** Messages after `at` that are acknowledged, out of order. */
  readonly acked: number;
  /** Messages that are delivered and not acknowledged. */
  readonly pending: number;
}

export interface MemberView {
  readonly borrower: string;
  readonly member: string;
  readonly pending: number;
  /** Of a queue: the message that the member has had for longest, one per stream. */
  readonly oldest: readonly { readonly path: string; readonly position: Position }[];
}

export interface LeaderView {
  readonly node: string;
  readonly term: number;
  readonly members: readonly MemberView[];
  readonly streams: readonly StreamView[];
  /** More streams than these exist. */
  readonly isCut: boolean;
}

/** Streams whose oldest message is looked at per member of a queue. */
const MAX_OLDEST = 5;

export function viewOf(leader: Leader, node: string): LeaderView {
  const paths = [...leader.streams.keys()].sort();
  const shown = paths.slice(0, MAX_VIEWED).map((path) => leader.streams.get(path)!);
  return {
    node,
    term: leader.term,
    members: [...leader.members.values()].map((member) => memberView(leader, member)),
    streams: shown.map((stream) => streamView(leader, stream)),
    isCut: paths.length > MAX_VIEWED,
  };
}

export function streamView(leader: Leader, stream: GroupStream): StreamView {
  const { path, stored: at, assignment, queued } = stream;
  const status = assignment?.status ?? "free";
  const borrower = assignment?.borrower ?? null;
  const acked = queued?.core.acks.ackedAbove ?? 0;
  return { path, status, borrower, at, acked, pending: pendingOf(leader, stream) };
}

function pendingOf({ members }: Leader, { path, assignment, queued }: GroupStream): number {
  if (queued !== undefined) return queued.core.outstanding;
  if (assignment === undefined) return 0;
  const told = members.get(assignment.borrower)?.pending ?? [];
  return told.find(({ stream, epoch }) => stream === path && epoch === assignment.epoch)?.count ?? 0;
}

function memberView(leader: Leader, { id, member, outstanding, pending }: Member): MemberView {
  const oldest: { path: string; position: Position }[] = [];
  if (leader.queue === undefined) {
    return { borrower: id, member, pending: pending.reduce((sum, { count }) => sum + count, 0), oldest };
  }
  for (const { path, queued } of leader.streams.values()) {
    if (oldest.length === MAX_OLDEST) break;
    const seq = queued?.core.oldestOf(id);
    if (seq !== undefined) oldest.push({ path, position: positionOf(queued!, seq) });
  }
  return { borrower: id, member, pending: outstanding, oldest };
}
