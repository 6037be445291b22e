// append-1 and append-100: one 256-byte message per request, 64 connections, one stream or a hundred. Every contender gets a
// fresh process and an empty directory in every round, and a short load before the clock starts. Sluice's time includes the drain
// of its journal.

import { createStreams, spread, streamPath } from "../load/fill.ts";
import { plainMessage } from "../load/message.ts";
import { headersOf, type PostLoad, preparePosts, runWrk, type WrkResult } from "../load/wrk.ts";
import { BARE_HTTP, startBareHttp } from "../peers/bare-http.ts";
import { DURABLE_STREAMS, startDurableStreams } from "../peers/durable-streams.ts";
import { benchmarkXadd, REDIS, startRedis } from "../peers/redis.ts";
import { drainAndStop } from "../peers/sluice.ts";
import { type Contender, formatNumber, ratioTarget, takeTurns } from "../rounds.ts";
import {
  type Bench,
  type Comparison,
  emptyOutcome,
  type Figure,
  OURS,
  type Outcome,
  recordTrouble,
  type Scenario,
  type TargetLine,
} from "../scenario.ts";
import { median } from "../statistics.ts";

const DIFFERENT_BODIES = 100;
/** Ten replies per connection; with fewer, the moment at which the round ends decides the rate. */
const LEAST_REPLIES = 10 * 64;
const CONTENT_TYPE = "application/octet-stream";
/** By peer: for one stream, and for many. */
const LEAST_RATIOS: ReadonlyMap<string, readonly [one: number, many: number]> = new Map([
  [BARE_HTTP, [0.85, 0.8]],
  [DURABLE_STREAMS, [34, 20]],
  [REDIS, [0.95, 0.9]],
]);

export const append1: Scenario = {
  name: "append-1",
  title: "append, 64 connections, 1 stream",
  needsWrk: true,
  run: (bench) => runAppend(bench, 1),
};

export const append100: Scenario = {
  name: "append-100",
  title: "append, 64 connections, 100 streams",
  needsWrk: true,
  run: (bench) => runAppend(bench, 100),
};

async function runAppend(bench: Bench, streams: number): Promise<Outcome> {
  const outcome = emptyOutcome();
  const bodies = Array.from({ length: DIFFERENT_BODIES }, (_, i) => plainMessage(i));
  const load = preparePosts(bench.freshDirectory("load"), streams, CONTENT_TYPE, bodies);
  const contenders: Contender[] = [
    { name: OURS, run: () => loadOurs(bench, load, bench.options.seconds, outcome) },
    { name: BARE_HTTP, run: () => loadBareHttp(bench, load, outcome) },
    { name: DURABLE_STREAMS, run: () => loadDurableStreams(bench, load, outcome) },
  ];
  if (bench.tools.redis) contenders.push(redisContender(bench, streams));
  else outcome.notes.push("No comparison with Redis: redis-server and redis-benchmark are not installed.");

  const what = "appends acknowledged";
  const { figures, comparisons } = await takeTurns(bench, what, "messages/s", contenders);
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  for (const comparison of comparisons) outcome.targets.push(appendTarget(comparison, streams, outcome));
  if (bench.options.sustainedSeconds > 0) await addSustained(bench, load, figures, outcome);
  return outcome;
}

/** One long run of Sluice, drain included, against the rounds of each peer. */
async function addSustained(bench: Bench, load: PostLoad, figures: readonly Figure[], outcome: Outcome): Promise<void> {
  const seconds = bench.options.sustainedSeconds;
  const rate = await loadOurs(bench, load, seconds, outcome);
  const what = `appends over ${seconds} s with the drain`;
  bench.log(`${what}: ${formatNumber(rate)} messages/s`);
  outcome.figures.push({ contender: OURS, what, unit: "messages/s", values: [rate] });
  for (const peer of figures.filter((figure) => figure.contender !== OURS)) {
    const ratios = [rate / median(peer.values)];
    outcome.targets.push(appendTarget({ what, peer: peer.contender, ratios }, load.streams, outcome));
  }
}

export async function loadOurs(bench: Bench, load: PostLoad, seconds: number, outcome: Outcome): Promise<number> {
  const directory = bench.freshDirectory("ours");
  const server = await bench.startOurs(directory);
  await createAll(server.url, load);
  await warmUp(bench, server.url, load);
  const result = await runWrk(server.url, load, seconds);
  const drain = await drainAndStop(server);
  bench.removeDirectory(directory);
  noteTrouble(OURS, result, outcome);
  bench.log(
    `  ${formatNumber(result.accepted / result.seconds)}/s before the drain, p50 ${result.p50Ms} ms, ` +
      `p99 ${result.p99Ms} ms, drain ${drain.seconds.toFixed(2)} s by ${drain.how}`,
  );
  return result.accepted / (result.seconds + drain.seconds);
}

async function loadBareHttp(bench: Bench, load: PostLoad, outcome: Outcome): Promise<number> {
  const server = await startBareHttp();
  await warmUp(bench, server.url, load);
  const result = await runWrk(server.url, load, bench.options.seconds);
  await server.stop();
  noteTrouble(BARE_HTTP, result, outcome);
  return result.accepted / result.seconds;
}

async function loadDurableStreams(bench: Bench, load: PostLoad, outcome: Outcome): Promise<number> {
  const directory = bench.freshDirectory("durable-streams");
  const server = await startDurableStreams(directory);
  await createAll(server.url, load);
  await warmUp(bench, server.url, load);
  const result = await runWrk(server.url, load, bench.options.seconds);
  await server.stop();
  bench.removeDirectory(directory);
  noteTrouble(DURABLE_STREAMS, result, outcome);
  return result.accepted / result.seconds;
}

function redisContender(bench: Bench, streams: number): Contender {
  return {
    name: REDIS,
    async run() {
      const directory = bench.freshDirectory("redis");
      const server = await startRedis(directory);
      const rate = await benchmarkXadd(server, streams, bench.options.seconds);
      await server.stop();
      bench.removeDirectory(directory);
      return rate;
    },
  };
}

export function createAll(url: URL, load: PostLoad): Promise<void> {
  return createStreams(
    url,
    Array.from({ length: load.streams }, (_, i) => streamPath(i)),
    load.contentType,
    Math.min(load.streams, 8),
    headersOf(load),
  );
}

/**
 * Loads the server before the clock starts. wrk ends with a request in flight on every connection. A last append to every stream
 * waits for those, because otherwise a slow server would start with a queue.
 */
export async function warmUp(bench: Bench, url: URL, load: PostLoad): Promise<void> {
  await runWrk(url, load, bench.options.quick ? 1 : 2);
  await spread(url, Math.min(load.streams, 8), load.streams, async (connection, i) => {
    const path = streamPath(i);
    const headers = headersOf(load);
    const reply = await connection.send({ method: "POST", path, headers, body: load.sample });
    if (reply.status >= 300) throw new Error(`POST ${path} answered ${reply.status} after the warm-up`);
  });
}

/** Rejects a ratio to a peer that hardly answered, because it is large and means nothing. */
function appendTarget(comparison: Comparison, streams: number, outcome: Outcome): TargetLine {
  const line = ratioTarget(comparison, LEAST_RATIOS.get(comparison.peer)![streams === 1 ? 0 : 1]);
  const tooFew = outcome.notes.some((note) => note.startsWith(`${comparison.peer}: too few`));
  return tooFew ? { ...line, met: undefined } : line;
}

export function noteTrouble(contender: string, result: WrkResult, outcome: Outcome): void {
  if (result.refused + result.broken > 0) {
    const trouble = `${result.refused} requests refused and ${result.broken} broken in one round; not counted.`;
    recordTrouble(outcome, contender, trouble);
  }
  if (result.accepted < LEAST_REPLIES) {
    const seconds = result.seconds.toFixed(1);
    recordTrouble(outcome, contender, `too few replies for a rate in one round, ${result.accepted} in ${seconds} s.`);
  }
}
