/**
 * A master of the cluster is killed while a service of two nodes copies into sessions, with replicas waited for. No inbox loses,
 * duplicates or reorders a message, and the service recovers by itself.
 */
import { createServer, type RunningServer } from "@sluice/server";
import { afterEach, beforeEach, expect, it } from "vitest";
import { SessionLoad } from "../sessions/load.ts";
import { eventually } from "../support/eventually.ts";
import { NERVOUS_MS, RedisCluster } from "../support/redis.ts";

let cluster: RedisCluster;
let nodes: RunningServer[] = [];

beforeEach(async () => {
  cluster = await RedisCluster.start({ nodeTimeoutMs: NERVOUS_MS });
  const redis = { urls: cluster.urls, waitReplicas: 1, deadlineMs: 4_000 };
  const fanout = { timeoutMs: 5_000 };
  const internal = { fanout: { checkMs: 500, retryMs: 100, maxRetryMs: 1_000 } };
  nodes = await Promise.all(
    [0, 1].map(() => createServer({ port: 0, log: false, redis, fanout, internal, drainMs: 2_000, report: () => {} })),
  );
});
afterEach(async () => {
  await Promise.all(nodes.map((node) => node.close()));
  await cluster.close();
});

it("after a master is killed, every inbox holds each of its messages once and in order", async () => {
  const urls = nodes.map(({ url }) => url);
  const load = new SessionLoad({ urls: () => urls, streams: ["a", "b", "c"], publishers: 2, staying: 4, restless: 3 });
  await load.start();
  await load.progress(60);
  const master = (await cluster.masters())[0]!;
  await master.kill();
  await eventually(async () => {
    expect((await cluster.masters()).filter((one) => one !== master).length).toBe(3);
  }, 30_000);
  await master.start();
  await cluster.settled();
  await load.progress(60);
  await load.stop();
  await eventually(async () => expect(await load.findings()).toEqual([]), 60_000);
}, 180_000);
