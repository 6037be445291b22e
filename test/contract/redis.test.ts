/**
 * The contract suite and the model on a Redis Cluster whose replicas are waited for; in the deep run also without waiting, and
 * on a single instance.
 */
import { afterAll, beforeAll } from "vitest";
import { type RedisServer, startSingleRedis } from "../support/redis.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { describeEngine } from "./engine-suite.ts";
import { describeModel } from "./model/describe.ts";
import { redisOpener } from "./open-redis.ts";

describeEngine("redis that waits for a replica", redisOpener(sharedRedis, { waitReplicas: 1 }), { isRemote: true });
// The model, the conformance suite and the servers of all other suites use a cluster without waiting. A single instance
// differs in how it is reached; `redis-alone.test.ts` covers that.
if (process.env.SLUICE_DEEP === "1") {
  describeEngine("redis", redisOpener(sharedRedis), { isRemote: true });
  let single: { server: RedisServer; close(): Promise<void> };
  beforeAll(async () => {
    single = await startSingleRedis();
  });
  afterAll(() => single?.close());
  const opener = redisOpener(() => ({ ...sharedRedis(), urls: [single.server.url] }));
  describeEngine("a single redis", opener, { isRemote: true });
}
describeModel("redis", redisOpener(sharedRedis), { isTimeless: true });
