/**
 * Which stream a subscription's topic is. A topic that was deleted and created again under its name is another one, and is told by
 * the name under which pull follows its stream, or by the id of a sharded topic.
 */
import { type Position, ZERO } from "@sluice/protocol";
import { hex } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import { shardPaths } from "../core/shard-path.ts";
import type { World } from "../core/world.ts";
import type { Streams } from "../streams/service.ts";
import { followsOf, type Meta } from "../streams/state.ts";
import type { NewSubscription } from "./contract.ts";
import type { TopicRef } from "./state.ts";

const FOLLOWER = "pull";
const ID_BYTES = 12;

export function topicNotFound(topic: string): Refusal {
  return new Refusal("stream-not-found", `there is no topic ${JSON.stringify(topic)}`);
}

/** Whether a stream is this topic, or a shard of it. */
export function isOfTopic(meta: Meta, { id, shards }: TopicRef): boolean {
  return id === (shards === undefined ? followsOf(meta)?.[FOLLOWER] : meta.shardOf);
}

/** Whether the stream of the topic's path is this topic, and no later one of its name. */
export function isTopic(meta: Meta, ref: TopicRef): boolean {
  return ref.shards === undefined ? isOfTopic(meta, ref) : meta.topic?.id === ref.id;
}

export interface FoundTopic {
  readonly topic: TopicRef;
  /** By path of each log: where a subscription begins. */
  readonly logs: ReadonlyMap<string, Position>;
}

/** Throws a Refusal if there is no such topic. */
export async function findTopic(
  streams: Streams,
  world: Pick<World, "randomBytes">,
  project: string,
  path: string,
  from: NewSubscription["from"] = "latest",
): Promise<FoundTopic> {
  const described = await streams.describe(project, path);
  if (described.kind !== "live") throw topicNotFound(path);
  const { config, topic } = described.meta;
  if (config.shards !== undefined) {
    const logs = new Map<string, Position>();
    for (const shard of shardPaths(path, config.shards)) {
      const found = await streams.describe(project, shard);
      if (found.kind !== "live") throw topicNotFound(path);
      logs.set(shard, await startOf(streams, project, shard, from, found.head.last));
    }
    return { topic: { path, id: topic!.id, shards: config.shards }, logs };
  }
  const name = hex(world.randomBytes(ID_BYTES));
  const followed = await streams.follow(project, path, { follower: FOLLOWER, name, holds: false });
  if (followed.kind !== "following") throw topicNotFound(path);
  const start = await startOf(streams, project, path, from, followed.tail);
  return { topic: { path, id: followed.name }, logs: new Map([[path, start]]) };
}

async function startOf(
  streams: Streams,
  project: string,
  path: string,
  from: NewSubscription["from"],
  tail: Position,
): Promise<Position> {
  if (from === undefined || from === "latest") return tail;
  if (from === "earliest") return ZERO;
  const located = await streams.positionAt(project, path, from);
  return located.kind === "position" ? located.position : tail;
}
