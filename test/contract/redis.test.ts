/** The contract suite and the model on Redis: a cluster, a cluster whose replicas are waited for, and a single instance. */
import { afterAll, beforeAll } from "vitest";
import { type RedisServer, startSingleRedis } from "../support/redis.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { describeEngine } from "./engine-suite.ts";
import { describeModel } from "./model/describe.ts";
import { redisOpener } from "./open-redis.ts";

let single: { server: RedisServer; close(): Promise<void> };
beforeAll(async () => {
  single = await startSingleRedis();
});
afterAll(() => single?.close());

describeEngine("redis", redisOpener(sharedRedis), { isRemote: true });
describeEngine("redis that waits for a replica", redisOpener(sharedRedis, { waitReplicas: 1 }), { isRemote: true });
describeEngine(
  "a single redis",
  redisOpener(() => ({ ...sharedRedis(), urls: [single.server.url] })),
  { isRemote: true },
);
describeModel("redis", redisOpener(sharedRedis), { isTimeless: true });
