// redis-append-1 and redis-append-100: one 256-byte message per request through one node on a Redis Cluster of three masters and
// three replicas. The peer is `node:http` with one XADD per request on the same cluster. Both acknowledge when the master has the
// message. The cluster comes from the tests' support code.

import { RedisCluster } from "../../test/support/redis.ts";
import { startServer } from "../child.ts";
import { plainMessage } from "../load/message.ts";
import { type PostLoad, preparePosts, runWrk } from "../load/wrk.ts";
import { HTTP_XADD, startHttpXadd } from "../peers/http-xadd.ts";
import { type Contender, ratioTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";
import { createAll, noteTrouble, warmUp } from "./append.ts";

const LEAST_RATIO = 0.6;

export const redisAppend1: Scenario = {
  name: "redis-append-1",
  title: "append on Redis Cluster, 64 connections, 1 stream",
  needsWrk: true,
  run: (bench) => runAppend(bench, 1),
};

export const redisAppend100: Scenario = {
  name: "redis-append-100",
  title: "append on Redis Cluster, 64 connections, 100 streams",
  needsWrk: true,
  run: (bench) => runAppend(bench, 100),
};

async function runAppend(bench: Bench, streams: number): Promise<Outcome> {
  const outcome = emptyOutcome();
  if (!bench.tools.redis) {
    outcome.notes.push("Left out: redis-server is not installed.");
    return outcome;
  }
  const bodies = Array.from({ length: 100 }, (_, i) => plainMessage(i));
  const load = preparePosts(bench.freshDirectory("load"), streams, "application/octet-stream", bodies);
  const contenders: Contender[] = [
    { name: OURS, run: () => withCluster((urls) => loadOurs(bench, load, urls, outcome)) },
    { name: HTTP_XADD, run: () => withCluster((urls) => loadXadd(bench, load, urls, outcome)) },
  ];
  const { figures, comparisons } = await takeTurns(bench, "appends acknowledged", "messages/s", contenders);
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  for (const comparison of comparisons) outcome.targets.push(ratioTarget(comparison, LEAST_RATIO));
  return outcome;
}

async function withCluster(run: (urls: readonly string[]) => Promise<number>): Promise<number> {
  const cluster = await RedisCluster.start();
  try {
    return await run(cluster.urls);
  } finally {
    await cluster.close();
  }
}

async function loadOurs(bench: Bench, load: PostLoad, urls: readonly string[], outcome: Outcome): Promise<number> {
  const args = [bench.options.server, "serve", "--port", "0", "--redis", urls.join(",")];
  const server = await startServer(process.execPath, args);
  await createAll(server.url, load);
  await warmUp(bench, server.url, load);
  const result = await runWrk(server.url, load, bench.options.seconds);
  await server.stop();
  noteTrouble(OURS, result, outcome);
  bench.log(`  p50 ${result.p50Ms} ms, p99 ${result.p99Ms} ms`);
  return result.accepted / result.seconds;
}

async function loadXadd(bench: Bench, load: PostLoad, urls: readonly string[], outcome: Outcome): Promise<number> {
  const server = await startHttpXadd(urls);
  await warmUp(bench, server.url, load);
  const result = await runWrk(server.url, load, bench.options.seconds);
  await server.stop();
  noteTrouble(HTTP_XADD, result, outcome);
  return result.accepted / result.seconds;
}
