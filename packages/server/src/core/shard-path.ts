/**
 * How the shards of a topic are named: `{path}/$shard/{i}`, with i from 0. Streams make them under these names, auth takes an
 * action on one for an action on its topic, and wake patterns know the level. Pure.
 *
 * What must stay true: nobody but the server creates or deletes a stream that has a level `$shard`, so that what has a shard's
 * name is a shard.
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

/** The topic that a path is a shard of; undefined for what has no shard's name. */
export function topicOfShard(path: string): string | undefined {
  const at = path.lastIndexOf(BETWEEN);
  if (at <= 0 || !NUMBER.test(path.slice(at + BETWEEN.length))) return undefined;
  return path.slice(0, at);
}

/** Whether a path lies where only shards are: clients read and append there, and create and delete nothing. */
export function isAmongShards(path: string): boolean {
  return path.includes(BETWEEN) || path.endsWith(`/${SHARD_LEVEL}`);
}
