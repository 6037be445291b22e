// sessions-publish: publishes to a stream that 0, 200, 1,000 and 10,000 sessions follow, at a steady pace: the p99 of each, and
// the ratio of 10,000 to none. sessions-drain: one publish to 10,000 sessions, and the time until all have their copy.
// sessions-copies: publishers that never pause and 1,000 sessions: durable copies per second, the last one included.
// redis-sessions: the same on a Redis Cluster, against pipelined XADD to as many streams.

import { setTimeout as sleep } from "node:timers/promises";
import { Cluster } from "ioredis";
import { RedisCluster } from "../../test/support/redis.ts";
import { type RunningServer, startServer } from "../child.ts";
import { HttpConnection } from "../load/http-connection.ts";
import { plainMessage } from "../load/message.ts";
import { copies, inboxBytes, publish, subscribeAll } from "../load/sessions.ts";
import { type Contender, ownTarget, ratioTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, recordTrouble, type Scenario } from "../scenario.ts";
import { percentile } from "../statistics.ts";

const SIZES = [0, 200, 1_000, 10_000];
const EVERY_MS = 100;
/** The two sizes that are compared get this many publishes, so that ten of them lie above the p99; the others a tenth. */
const PUBLISHES = 1_000;
const MOST_SLOWER = 2;
const LEAST_COPIES = 50_000;
const MOST_DRAIN_S = 2;
const LEAST_REDIS_RATIO = 0.5;
const PUBLISHERS = 8;
const SESSIONS = 1_000;
const MESSAGE = plainMessage(0).toString();
const PATIENCE_MS = 120_000;
const XADD = "pipelined XADD";

export const sessionsPublish: Scenario = {
  name: "sessions-publish",
  title: "publish to a stream with 0 to 10,000 subscribers",
  needsWrk: false,
  run: runPublish,
};

export const sessionsDrain: Scenario = {
  name: "sessions-drain",
  title: "one publish to 10,000 sessions, until all have it",
  needsWrk: false,
  run: runDrain,
};

export const sessionsCopies: Scenario = {
  name: "sessions-copies",
  title: "copies to 1,000 sessions, saturated",
  needsWrk: false,
  run: runCopies,
};

export const redisSessions: Scenario = {
  name: "redis-sessions",
  title: "copies to 1,000 sessions on Redis Cluster",
  needsWrk: false,
  run: runRedis,
};

async function runPublish(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const sizes = bench.options.quick ? [0, 300] : SIZES;
  const p99s = new Map<number, number[]>(sizes.map((size) => [size, []]));
  for (let round = 0; round < bench.options.rounds; round++) {
    for (const size of sizes) {
      const isCompared = size === sizes[0] || size === sizes.at(-1);
      const count = bench.options.quick ? 20 : isCompared ? PUBLISHES : PUBLISHES / 10;
      p99s.get(size)!.push(await steadyP99(bench, size, count));
    }
  }
  for (const [size, values] of p99s) {
    outcome.figures.push({ contender: OURS, what: `p99 of a publish, ${size} subscribers`, unit: "ms", values });
  }
  const [none, most] = [p99s.get(sizes[0]!)!, p99s.get(sizes.at(-1)!)!];
  const slower = {
    contender: OURS,
    what: "p99 with most subscribers / with none",
    unit: "x",
    values: most.map((p99, i) => p99 / none[i]!),
  };
  outcome.figures.push(slower);
  outcome.targets.push(ownTarget(slower, "<=", MOST_SLOWER));
  return outcome;
}

async function steadyP99(bench: Bench, size: number, count: number): Promise<number> {
  const directory = bench.freshDirectory("publish");
  const server = await bench.startOurs(directory);
  await subscribeAll(server.url, size);
  const connection = await HttpConnection.open(server.url);
  await publish(connection, MESSAGE);
  await sleep(1_000);
  const latenciesMs: number[] = [];
  let mode = "";
  for (let i = 0; i < count; i++) {
    const startedAt = performance.now();
    mode = await publish(connection, MESSAGE);
    latenciesMs.push(performance.now() - startedAt);
    await sleep(Math.max(0, EVERY_MS - (performance.now() - startedAt)));
  }
  connection.close();
  await server.stop();
  bench.removeDirectory(directory);
  const sorted = Float64Array.from(latenciesMs).sort();
  const p99 = percentile(sorted, 99);
  bench.log(`${size} subscribers (${mode}): p50 ${percentile(sorted, 50).toFixed(2)}, p99 ${p99.toFixed(2)} ms`);
  return p99;
}

async function runDrain(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const size = bench.options.quick ? 500 : 10_000;
  const directory = bench.freshDirectory("drain");
  const server = await bench.startOurs(directory);
  await subscribeAll(server.url, size);
  const values: number[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    const { seconds } = await timed(server, size, async (connection) => {
      await publish(connection, MESSAGE);
      return 1;
    });
    values.push(seconds);
    bench.log(`round ${round + 1}: ${seconds.toFixed(3)} s`);
  }
  await server.stop();
  bench.removeDirectory(directory);
  const figure = { contender: OURS, what: `from one publish until ${size} sessions have it`, unit: "s", values };
  outcome.figures.push(figure);
  outcome.targets.push(ownTarget(figure, "<=", MOST_DRAIN_S));
  return outcome;
}

/** Runs publishes, and waits until every session has a copy of each. */
async function timed(server: RunningServer, size: number, run: (connection: HttpConnection) => Promise<number>) {
  const connection = await HttpConnection.open(server.url);
  const before = await copies(connection);
  const startedAt = performance.now();
  const published = await run(connection);
  const wanted = before + published * size;
  while ((await copies(connection)) < wanted) {
    if (performance.now() - startedAt > PATIENCE_MS) throw new Error("the copies do not come");
    await sleep(5);
  }
  const seconds = (performance.now() - startedAt) / 1000;
  connection.close();
  return { seconds, published };
}

async function saturate(bench: Bench, server: RunningServer, outcome: Outcome): Promise<number> {
  const size = bench.options.quick ? 300 : SESSIONS;
  await subscribeAll(server.url, size);
  const load = async (seconds: number) => {
    const until = performance.now() + seconds * 1000;
    let published = 0;
    const publisher = async () => {
      const connection = await HttpConnection.open(server.url);
      while (performance.now() < until) {
        await publish(connection, MESSAGE);
        published++;
      }
      connection.close();
    };
    await Promise.all(Array.from({ length: PUBLISHERS }, publisher));
    return published;
  };
  const first = await timed(server, size, () => load(1));
  const { seconds, published } = await timed(server, size, () => load(bench.options.seconds));
  const connection = await HttpConnection.open(server.url);
  const wanted = (first.published + published) * MESSAGE.length;
  for (const index of [0, Math.floor(size / 2), size - 1]) {
    const bytes = await inboxBytes(connection, index);
    if (bytes !== wanted) recordTrouble(outcome, OURS, `an inbox has ${bytes} bytes instead of ${wanted}`);
  }
  connection.close();
  bench.log(`  ${published} publishes`);
  return (published * size) / seconds;
}

async function runCopies(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const ours: Contender = {
    name: OURS,
    run: async () => {
      const directory = bench.freshDirectory("copies");
      const server = await bench.startOurs(directory);
      const rate = await saturate(bench, server, outcome);
      await server.stop();
      bench.removeDirectory(directory);
      return rate;
    },
  };
  const { figures } = await takeTurns(bench, "copies made durable", "copies/s", [ours]);
  outcome.figures.push(...figures);
  outcome.targets.push(ownTarget(figures[0]!, ">=", LEAST_COPIES));
  return outcome;
}

async function runRedis(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  if (!bench.tools.redis) {
    outcome.notes.push("Left out: redis-server is not installed.");
    return outcome;
  }
  const contenders: Contender[] = [
    { name: OURS, run: () => onCluster((urls) => copiesOnRedis(bench, urls, outcome)) },
    { name: XADD, run: () => onCluster((urls) => pipelinedXadd(bench, urls)) },
  ];
  const { figures, comparisons } = await takeTurns(bench, "copies made", "copies/s", contenders);
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  for (const comparison of comparisons) outcome.targets.push(ratioTarget(comparison, LEAST_REDIS_RATIO));
  return outcome;
}

async function onCluster(run: (urls: readonly string[]) => Promise<number>): Promise<number> {
  const cluster = await RedisCluster.start();
  try {
    return await run(cluster.urls);
  } finally {
    await cluster.close();
  }
}

async function copiesOnRedis(bench: Bench, urls: readonly string[], outcome: Outcome): Promise<number> {
  const server = await startServer(process.execPath, [
    bench.options.server,
    "serve",
    "--port",
    "0",
    "--redis",
    urls.join(","),
  ]);
  const rate = await saturate(bench, server, outcome);
  await server.stop();
  return rate;
}

/** The minimal hand-written equivalent: a message to every stream, and the next one when all have it. */
async function pipelinedXadd(bench: Bench, urls: readonly string[]): Promise<number> {
  const nodes = urls.map((url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) }));
  const cluster = new Cluster(nodes, { enableAutoPipelining: true });
  const size = bench.options.quick ? 300 : SESSIONS;
  const round = () => Promise.all(Array.from({ length: size }, (_, i) => cluster.xadd(`{s${i}}`, "*", "m", MESSAGE)));
  await round();
  const startedAt = performance.now();
  let copied = 0;
  while (performance.now() - startedAt < bench.options.seconds * 1000) {
    await round();
    copied += size;
  }
  const rate = copied / ((performance.now() - startedAt) / 1000);
  cluster.disconnect();
  return rate;
}
