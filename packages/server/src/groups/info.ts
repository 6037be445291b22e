/**
 * A group as its operators see it: leader, members, and how far each stream is processed. The service builds it from what the
 * leader knows, or from what is stored if no leader answers. Pure, apart from the look at each stream.
 *
 * Invariants: the progress that is shown is durable. Lag counts messages, as far as numbers without holes tell.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { LeaderView, StreamView } from "./leader-view.ts";
import type { GroupName } from "./topic.ts";

/** How far a group, a stream or a member is behind. */
export interface Backlog {
  /** Messages that are published and not acknowledged. */
  readonly lag: number;
  /** Messages that are delivered and not acknowledged. */
  readonly pending: number;
  /** The age of the oldest message that is not acknowledged; null without one. */
  readonly oldestUnackedMs: number | null;
}

export interface StreamInfo extends Backlog {
  readonly stream: string;
  /** The status of its assignment; `free` without one. */
  readonly status: string;
  /** The member that holds it. */
  readonly borrower: string | null;
  readonly progress: Position;
  readonly tail: Position;
}

export interface MemberInfo extends Backlog {
  readonly id: string;
  readonly streams: readonly string[];
}

export interface GroupInfo extends Backlog {
  readonly name: GroupName;
  /** `stored`: no leader answered, so members are unknown. */
  readonly source: "leader" | "stored";
  readonly leader: { readonly node: string; readonly epoch: number } | null;
  readonly members: readonly MemberInfo[];
  readonly streams: readonly StreamInfo[];
  /** More streams than these exist, which the sums leave out. */
  readonly isCut: boolean;
}

/** What a stream holds after a position. */
export interface After {
  readonly tail: Position;
  /** When the first message after the position was published. */
  readonly oldestMs?: number | undefined;
}

export interface Look {
  /** Undefined if there is no such stream. */
  after(path: string, position: Position): Promise<After | undefined>;
  readonly now: number;
  /** Streams that are looked at concurrently. */
  readonly batch: number;
}

/** What is known of a group whose leader does not answer. */
export function storedView(progress: ReadonlyMap<string, Position>, max: number): Omit<LeaderView, "node" | "term"> {
  const paths = [...progress.keys()].sort();
  const streams = paths.slice(0, max).map((path): StreamView => {
    return { path, status: "free", borrower: null, at: progress.get(path)!, acked: 0, pending: 0 };
  });
  return { members: [], streams, isCut: paths.length > max };
}

export async function infoOf(
  name: GroupName,
  view: LeaderView | ReturnType<typeof storedView>,
  look: Look,
): Promise<GroupInfo> {
  const names = new Map(view.members.map(({ borrower, member }) => [borrower, member]));
  const streams = await inBatches(view.streams, look.batch, async (stream) => {
    const info = await streamInfo(stream, look);
    return info && { ...info, borrower: stream.borrower && (names.get(stream.borrower) ?? stream.borrower) };
  });
  const held = new Map<string, StreamInfo[]>();
  for (const [i, { borrower }] of view.streams.entries()) {
    const info = streams[i];
    if (borrower === null || info === undefined) continue;
    const list = held.get(borrower);
    if (list === undefined) held.set(borrower, [info]);
    else list.push(info);
  }
  const members = await inBatches(view.members, look.batch, async ({ borrower, member, pending, oldest }) => {
    const own = held.get(borrower) ?? [];
    const ages = await Promise.all(oldest.map(({ path, position }) => ageOf(path, position, look)));
    const { lag, oldestUnackedMs } = sumOf(own);
    const oldestMs = oldestOf([oldestUnackedMs, ...ages]);
    return { id: member, streams: own.map(({ stream }) => stream), lag, pending, oldestUnackedMs: oldestMs };
  });
  const existing = streams.filter((stream) => stream !== undefined);
  const { isCut } = view;
  const leader = "term" in view ? { node: view.node, epoch: view.term } : null;
  const source = leader === null ? "stored" : "leader";
  return { name, source, leader, members, streams: existing, ...sumOf(existing), isCut };
}

async function streamInfo(view: StreamView, look: Look): Promise<StreamInfo | undefined> {
  const { path: stream, status, borrower, at: progress, acked, pending } = view;
  const found = await look.after(stream, progress);
  if (found === undefined) return undefined;
  const { tail, oldestMs } = found;
  const lag = Math.max(0, lagOf(progress, tail) - acked);
  const oldestUnackedMs = lag === 0 || oldestMs === undefined ? null : Math.max(0, look.now - oldestMs);
  return { stream, status, borrower, progress, tail, lag, pending, oldestUnackedMs };
}

async function ageOf(path: string, { generation, seq }: Position, look: Look): Promise<number | null> {
  const found = await look.after(path, { generation, seq: seq - 1 });
  return found?.oldestMs === undefined ? null : Math.max(0, look.now - found.oldestMs);
}

export function sumOf(parts: readonly Backlog[]): Backlog {
  let lag = 0;
  let pending = 0;
  for (const part of parts) {
    lag += part.lag;
    pending += part.pending;
  }
  return { lag, pending, oldestUnackedMs: oldestOf(parts.map(({ oldestUnackedMs }) => oldestUnackedMs)) };
}

function oldestOf(ages: readonly (number | null)[]): number | null {
  return ages.reduce((oldest, age) => (age === null || (oldest !== null && oldest >= age) ? oldest : age), null);
}

async function inBatches<T, R>(all: readonly T[], size: number, work: (one: T) => Promise<R>): Promise<R[]> {
  const done: R[] = [];
  for (let at = 0; at < all.length; at += size) done.push(...(await Promise.all(all.slice(at, at + size).map(work))));
  return done;
}

/** After a stream was created anew, all of its messages are to come. */
export function lagOf(at: Position, tail: Position): number {
  if (comparePositions(at, tail) >= 0) return 0;
  return Math.max(0, tail.seq - Math.min(at.seq, tail.seq)) || tail.seq;
}
