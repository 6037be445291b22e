/** A killed master and a replica that takes over with the writes it has received, which loses the end of a history. */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import type { RedisCluster, RedisServer } from "../support/redis.ts";

/** A replica and its master. */
export async function pair(cluster: RedisCluster): Promise<{ replica: RedisServer; master: RedisServer }> {
  let replica!: RedisServer;
  // A node of a busy machine may not answer in time, and then has no role.
  await eventually(async () => {
    const [first] = await cluster.replicas();
    expect(first).toBeDefined();
    replica = first!;
  }, 30_000);
  const port = await replica.masterPort();
  return { replica, master: cluster.nodes.find((node) => node.port === port)! };
}

/** Kills the master and makes the replica take over. */
export async function takeOver(master: RedisServer, replica: RedisServer): Promise<void> {
  await master.kill();
  await eventually(async () => expect(await replica.role()).toBe("master"), 30_000);
  await replica.listen();
}

/** The number of entities whose head is on this node. */
export async function keysOn(node: RedisServer): Promise<number> {
  return node.admin(async (redis) => (await redis.keys("sluice:*:h")).length);
}
