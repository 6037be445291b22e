/**
 * Where a group begins in a stream, and which plain streams a path stands for: a sharded topic is consumed as its shards. Leaders
 * ask it about the streams that they find, and declarations about those that they hold.
 */
import { type Position, ZERO } from "@sluice/protocol";
import { shardPaths } from "../core/shard-path.ts";
import type { Streams } from "../streams/service.ts";
import type { Start } from "./state.ts";

export interface PlainStream {
  readonly project: string;
  readonly path: string;
  readonly createdMs: number;
  /** When its last message was published. */
  readonly lastMs: number;
  readonly tail: Position;
  /** Where the stream ends, if it is closed. */
  readonly end: Position | undefined;
  /** Whether it has a retention, so that a group must hold what it needs. */
  readonly isTrimmed: boolean;
}

/** None if there is no such stream any more. */
export async function plainStreams(
  streams: Pick<Streams, "describe">,
  project: string,
  path: string,
): Promise<readonly PlainStream[]> {
  const described = await streams.describe(project, path);
  if (described.kind !== "live") return [];
  const { meta, head } = described;
  const { shards, retention } = meta.config;
  if (shards !== undefined) {
    return (await Promise.all(shardPaths(path, shards).map((shard) => plainStreams(streams, project, shard)))).flat();
  }
  const end = meta.closed ? head.last : undefined;
  const isTrimmed = retention !== undefined;
  return [{ project, path, createdMs: meta.createdAt, lastMs: head.at, tail: head.last, end, isTrimmed }];
}

/** Where a group that has no row of the stream begins. */
export async function startIn(
  streams: Pick<Streams, "positionAt">,
  { project, path, createdMs, lastMs, tail }: PlainStream,
  start: Start,
): Promise<Position> {
  if (start.kind === "position") return start.position;
  if (start.kind === "earliest" || createdMs >= start.atMs) return ZERO;
  if (lastMs < start.atMs) return tail;
  const located = await streams.positionAt(project, path, start.atMs);
  return located.kind === "position" ? located.position : ZERO;
}
