// live-1000, live-10000: WebSocket tabs of one stream, saturated, in deliveries per second. live-latency: 1,000 tabs at 50 messages
// per second, against bare `ws` behind one O_DSYNC write. live-idle: the memory of a tab that is connected and quiet. live-offline:
// a publish to a stream with 10,000 subscriptions that are away, against one with none. live-reconnect: 10,000 tabs that come back
// at once, until all have caught up.

import type { RunningServer } from "../child.ts";
import { Latency, saturate, settled } from "../load/deliveries.ts";
import { createStreams, fillRoundRobin, streamPath } from "../load/fill.ts";
import { HEAP_PROBE_ARGS, measureMemory } from "../load/heap.ts";
import { HttpConnection } from "../load/http-connection.ts";
import { jsonMessage } from "../load/message.ts";
import { publishOne } from "../load/publish.ts";
import { Readers, webSocketRequest } from "../load/readers.ts";
import { mintTabs, reconnectAll, tabRequest } from "../load/tabs.ts";
import { BARE_WS, startBareWs } from "../peers/bare-ws.ts";
import { ownTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, type Figure, OURS, type Outcome, type Scenario } from "../scenario.ts";
import { percentile } from "../statistics.ts";

const STREAM = "bench/tabs";
const PATH = streamPath("tabs");
const LEAST_DELIVERIES_PER_SECOND = 300_000;
const LATENCY_TABS = 1_000;
const LATENCY_EVERY_MS = 20;
const MOST_LATENCY_RATIO = 1.5;
const MANY_TABS = 10_000;
const FEW_TABS = 1_000;
const MOST_BYTES_PER_TAB = 20 * 1024;
const MOST_OFFLINE_RATIO = 1.2;
const MOST_RECONNECT_S = 10;
const RECONNECTING_AT_ONCE = 256;
const MISSED_MESSAGES = 10;

const scenario = (name: string, title: string, run: (bench: Bench) => Promise<Outcome>): Scenario => {
  return { name, title, needsWrk: false, run };
};

export const live1000 = scenario("live-1000", "Live, 1,000 tabs of one stream, saturated", (bench) =>
  runSaturated(bench, 1_000),
);
export const live10000 = scenario("live-10000", "Live, 10,000 tabs of one stream, saturated", (bench) =>
  runSaturated(bench, MANY_TABS),
);
export const liveLatency = scenario("live-latency", "Live, 1,000 tabs of one stream at 50 messages/s", runLatency);
export const liveIdle = scenario("live-idle", "Live, memory of a tab that is connected and quiet", runIdle);
export const liveOffline = scenario("live-offline", "publish to a stream with 10,000 subscriptions away", runOffline);
export const liveReconnect = scenario("live-reconnect", "Live, 10,000 tabs come back at once", runReconnect);

const own = (what: string, unit: string, values: number[]): Figure => ({ contender: OURS, what, unit, values });
const manyTabs = ({ options }: Bench): number => (options.quick ? 500 : MANY_TABS);

async function runSaturated(bench: Bench, count: number): Promise<Outcome> {
  const outcome = emptyOutcome();
  const tabs = bench.options.quick ? 100 : count;
  const ours = {
    name: OURS,
    run: () =>
      withServer(bench, async (server) => {
        const readers = await openTabs(server, tabs);
        return saturate({ bench, name: OURS, server, path: PATH, readers, outcome });
      }),
  };
  const { figures } = await takeTurns(bench, "deliveries", "deliveries/s", [ours]);
  outcome.figures.push(...figures);
  outcome.targets.push(ownTarget(figures[0]!, ">=", LEAST_DELIVERIES_PER_SECOND));
  return outcome;
}

/** Tabs that are connected and proven to receive. */
async function openTabs(server: RunningServer, count: number, onStamp?: (stampMicros: number) => void) {
  await createStreams(server.url, [PATH], "application/json", 1);
  const tabs = await mintTabs(server.url, STREAM, count);
  const requests = tabs.map((tab) => tabRequest(server.url, tab));
  return proven(server, await Readers.open(server.url, requests, onStamp));
}

async function proven(server: RunningServer, readers: Readers): Promise<Readers> {
  await publishOne(server.url, PATH);
  await settled(readers, 1);
  if (readers.slowest() < 1) throw new Error("not every tab received the first message");
  return readers;
}

async function withServer<T>(
  bench: Bench,
  run: (server: RunningServer) => Promise<T>,
  start: (directory: string) => Promise<RunningServer> = (directory) => bench.startOurs(directory),
): Promise<T> {
  const directory = bench.freshDirectory("live");
  const server = await start(directory);
  try {
    return await run(server);
  } finally {
    // Connections of this process end with it; a server need not wait for them.
    await server.kill();
    bench.removeDirectory(directory);
  }
}

async function runLatency(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const count = bench.options.quick ? 100 : LATENCY_TABS;
  const measure = (name: string, server: RunningServer, readers: Readers, latency: Latency) =>
    latency.p99({ bench, name, server, path: PATH, readers, outcome }, LATENCY_EVERY_MS);
  const ours = () =>
    withServer(bench, async (server) => {
      const latency = new Latency();
      return measure(OURS, server, await openTabs(server, count, latency.onStamp), latency);
    });
  const bare = () =>
    withServer(
      bench,
      async (server) => {
        const latency = new Latency();
        const requests = new Array<string>(count).fill(webSocketRequest(server.url, PATH));
        const readers = await proven(server, await Readers.open(server.url, requests, latency.onStamp));
        return measure(BARE_WS, server, readers, latency);
      },
      startBareWs,
    );
  const turns = await takeTurns(bench, "p99 from due to delivered", "ms", [
    { name: OURS, run: ours },
    { name: BARE_WS, run: bare },
  ]);
  const ratio = own(`p99, ours / ${BARE_WS}`, "x", [...turns.comparisons[0]!.ratios]);
  outcome.figures.push(...turns.figures);
  outcome.comparisons.push(...turns.comparisons);
  outcome.targets.push(ownTarget(ratio, "<=", MOST_LATENCY_RATIO));
  return outcome;
}

async function runIdle(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const [few, many] = bench.options.quick ? [50, 500] : [FEW_TABS, MANY_TABS];
  const bytesOf = (count: number) =>
    withServer(
      bench,
      async (server) => {
        const readers = await openTabs(server, count);
        const { heapBytes, externalBytes } = await measureMemory(server);
        readers.close();
        return heapBytes + externalBytes;
      },
      (directory) => bench.startOurs(directory, HEAP_PROBE_ARGS),
    );
  const values: number[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    values.push(((await bytesOf(many)) - (await bytesOf(few))) / (many - few));
    bench.log(`round ${round + 1}: ${values.at(-1)!.toFixed(0)} bytes per tab`);
  }
  const figure = own("heap and external memory per idle tab", "bytes", values);
  outcome.figures.push(figure);
  outcome.targets.push(ownTarget(figure, "<=", MOST_BYTES_PER_TAB));
  return outcome;
}

async function runOffline(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const none = streamPath("none");
  const { p50, p99 } = await withServer(bench, async (server) => {
    await createStreams(server.url, [PATH, none], "application/json", 1);
    await mintTabs(server.url, STREAM, manyTabs(bench));
    return inTurn(bench, server, PATH, none);
  });
  const ratio = own("p50 with 10,000 subscriptions away / with none", "x", p50);
  outcome.figures.push(ratio, own("p99 with 10,000 subscriptions away / with none", "x", p99));
  outcome.targets.push(ownTarget(ratio, "<=", MOST_OFFLINE_RATIO));
  return outcome;
}

/** Publishes to two streams in turn, so that both meet the same machine; returns the ratios of their latencies, per round. */
async function inTurn(bench: Bench, server: RunningServer, first: string, second: string) {
  const connection = await HttpConnection.open(server.url);
  const headers = { "Content-Type": "application/json" };
  const p50: number[] = [];
  const p99: number[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    const latenciesMs = new Map<string, number[]>([first, second].map((path) => [path, []]));
    const until = performance.now() + bench.options.seconds * 1000;
    for (let i = 0; performance.now() < until; i++) {
      for (const [path, ms] of latenciesMs) {
        const startedAt = performance.now();
        const reply = await connection.send({ method: "POST", path, headers, body: jsonMessage(i) });
        if (reply.status >= 300) throw new Error(`POST ${path} answered ${reply.status}`);
        ms.push(performance.now() - startedAt);
      }
    }
    const [ours, none] = [...latenciesMs.values()].map((ms) => Float64Array.from(ms).sort());
    p50.push(percentile(ours!, 50) / percentile(none!, 50));
    p99.push(percentile(ours!, 99) / percentile(none!, 99));
    bench.log(`round ${round + 1}: ${p50.at(-1)!.toFixed(3)}x at p50 of ${percentile(ours!, 50).toFixed(2)} ms`);
  }
  connection.close();
  return { p50, p99 };
}

async function runReconnect(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const values: number[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    values.push(
      await withServer(bench, async (server) => {
        await createStreams(server.url, [PATH], "application/json", 1);
        const tabs = await mintTabs(server.url, STREAM, manyTabs(bench));
        await fillRoundRobin(server.url, [PATH], MISSED_MESSAGES, MISSED_MESSAGES, 1);
        const startedAt = performance.now();
        const close = await reconnectAll(server.url, PATH, tabs, MISSED_MESSAGES, RECONNECTING_AT_ONCE);
        const seconds = (performance.now() - startedAt) / 1000;
        close();
        return seconds;
      }),
    );
    bench.log(`round ${round + 1}: ${values.at(-1)!.toFixed(2)} s`);
  }
  const figure = own("until all tabs are connected and have caught up", "s", values);
  outcome.figures.push(figure);
  outcome.targets.push(ownTarget(figure, "<=", MOST_RECONNECT_S));
  return outcome;
}
