/**
 * The names of a topic's shards: `{path}/$shard/{i}`, with i from 0. Streams create shards under these names, auth treats an
 * action on a shard as one on its topic, and wake patterns know the level. Pure.
 *
 * Invariants: only the server creates or deletes a stream with a level `$shard`, so every path with a shard's name is a shard.
 */
export const SHARD_LEVEL = "$shard";
export const MAX_SHARDS = 256;

const BETWEEN = `/${SHARD_LEVEL}/`;
const NUMBER = /^(0|[1-9]\d{0,2})$/;

export function shardPath(topic: string, shard: number): string {
  return topic + BETWEEN + shard;
}

export function shardPaths(topic: string, shards: number): string[] {
  return Array.from({ length: shards }, (_, shard) => shardPath(topic, shard));
}

/** The topic of a shard; undefined for any other path. */
export function topicOfShard(path: string): string | undefined {
  const at = path.lastIndexOf(BETWEEN);
  if (at <= 0 || !NUMBER.test(path.slice(at + BETWEEN.length))) return undefined;
  return path.slice(0, at);
}

/** Whether a path lies below a `$shard` level: clients read and append there, and cannot create or delete. */
export function isAmongShards(path: string): boolean {
  return path.includes(BETWEEN) || path.endsWith(`/${SHARD_LEVEL}`);
}
