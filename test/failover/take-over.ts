/** A master that goes, and a replica that takes over with what it has heard: how the end of a history is lost. */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import type { RedisCluster, RedisServer } from "../support/redis.ts";

/** A replica and its master. */
export async function pair(cluster: RedisCluster): Promise<{ replica: RedisServer; master: RedisServer }> {
  const replica = (await cluster.replicas())[0]!;
  const port = await replica.masterPort();
  return { replica, master: cluster.nodes.find((node) => node.port === port)! };
}

/** The master goes, and the replica takes over with what it has. */
export async function takeOver(master: RedisServer, replica: RedisServer): Promise<void> {
  await master.kill();
  await eventually(async () => expect(await replica.role()).toBe("master"), 30_000);
  await replica.listen();
}

/** How many entities have their head here. */
export async function keysOn(node: RedisServer): Promise<number> {
  return node.admin(async (redis) => (await redis.keys("sluice:*:h")).length);
}
