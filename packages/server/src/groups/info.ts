/**
 * A group as its operators see it: leader, members, and how far each stream is processed. The service builds it from the leader if
 * that is on this node, and else from what is stored. Pure, apart from the look at each stream's tail.
 *
 * Invariants: the progress that is shown is durable. Lag counts messages, as far as numbers without holes tell.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Leader } from "./leader-state.ts";
import type { GroupName } from "./topic.ts";

export interface StreamInfo {
  readonly stream: string;
  /** The status of its assignment; `free` without one. */
  readonly status: string;
  readonly borrower: string | null;
  readonly progress: Position;
  readonly tail: Position;
  readonly lag: number;
}

export interface GroupInfo {
  readonly name: GroupName;
  readonly leader: { readonly node: string; readonly epoch: number } | null;
  readonly members: readonly { readonly id: string; readonly streams: readonly string[] }[];
  readonly streams: readonly StreamInfo[];
}

export type TailOf = (path: string) => Promise<Position | undefined>;

export async function infoOf(
  name: GroupName,
  node: string,
  leader: Leader | undefined,
  progress: ReadonlyMap<string, Position>,
  tailOf: TailOf,
): Promise<GroupInfo> {
  const paths = leader === undefined ? [...progress.keys()] : [...leader.streams.keys()];
  const streams: StreamInfo[] = [];
  for (const path of paths.sort()) {
    const known = leader?.streams.get(path);
    const at = known?.stored ?? progress.get(path)!;
    const tail = await tailOf(path);
    if (tail === undefined) continue;
    streams.push({
      stream: path,
      status: known?.assignment?.status ?? "free",
      borrower: known?.assignment?.borrower ?? null,
      progress: at,
      tail,
      lag: lagOf(at, tail),
    });
  }
  const members = [...(leader?.members.values() ?? [])].map(({ id, member }) => ({
    id: member,
    streams: streams.filter(({ borrower }) => borrower === id).map(({ stream }) => stream),
  }));
  return { name, leader: leader === undefined ? null : { node, epoch: leader.term }, members, streams };
}

/** After a stream was created anew, all of its messages are to come. */
function lagOf(at: Position, tail: Position): number {
  if (comparePositions(at, tail) >= 0) return 0;
  return Math.max(0, tail.seq - Math.min(at.seq, tail.seq)) || tail.seq;
}
