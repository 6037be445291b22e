/** The contract suite and the comparison with memory on Redis: on a cluster, on a cluster whose replicas are waited for, and on a single one. */
import { afterAll, beforeAll } from "vitest";
import { RedisCluster, type RedisServer, startSingleRedis } from "../support/redis.ts";
import { describeEngine } from "./engine-suite.ts";
import { describeModel } from "./model/describe.ts";
import { redisOpener } from "./open-redis.ts";

let cluster: RedisCluster;
let single: { server: RedisServer; close(): Promise<void> };

beforeAll(async () => {
  [cluster, single] = await Promise.all([RedisCluster.start(), startSingleRedis()]);
});
afterAll(() => Promise.all([cluster?.close(), single?.close()]));

describeEngine(
  "redis",
  redisOpener(() => cluster),
);
describeEngine(
  "redis that waits for a replica",
  redisOpener(() => cluster, { waitReplicas: 1 }),
);
describeEngine(
  "a single redis",
  redisOpener(() => ({
    urls: [single.server.url],
    flush: async () => void (await single.server.admin((redis) => redis.flushall())),
  })),
);

describeModel(
  "redis",
  redisOpener(() => cluster),
  { isTimeless: true },
);
