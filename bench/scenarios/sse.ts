// sse-100, sse-1000: readers of one stream, saturated, in deliveries per second; a delivery is one message that reaches one
// reader, also if messages share a write. sse-latency: 100 readers at 100 messages per second, from a message's due time to its
// arrival at a reader. Publishers and readers share this process and its clock. After each round every reader must have every
// acknowledged message; otherwise no target is met.

import { setTimeout as sleep } from "node:timers/promises";
import type { RunningServer } from "../child.ts";
import { createStreams, streamPath } from "../load/fill.ts";
import { publishOne, publishPaced, publishSaturated } from "../load/publish.ts";
import { SseReaders } from "../load/sse-readers.ts";
import { BARE_FAN_OUT, startBareFanOut } from "../peers/bare-fan-out.ts";
import { formatNumber, ownTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, recordTrouble, type Scenario } from "../scenario.ts";
import { percentile } from "../statistics.ts";

const LEAST_DELIVERIES_PER_SECOND = 300_000;
const LATENCY_READERS = 100;
const LATENCY_EVERY_MS = 10;
const MOST_P99_MS = 20;
const CATCH_UP_LIMIT_MS = 30_000;

export const sse100: Scenario = {
  name: "sse-100",
  title: "SSE, 100 readers of one stream, saturated",
  needsWrk: false,
  run: (bench) => runSaturated(bench, 100),
};

export const sse1000: Scenario = {
  name: "sse-1000",
  title: "SSE, 1,000 readers of one stream, saturated",
  needsWrk: false,
  run: (bench) => runSaturated(bench, 1000),
};

export const sseLatency: Scenario = {
  name: "sse-latency",
  title: "SSE, 100 readers of one stream at 100 messages/s",
  needsWrk: false,
  run: runLatency,
};

type Start = (directory: string) => Promise<RunningServer>;

async function runSaturated(bench: Bench, readerCount: number): Promise<Outcome> {
  const outcome = emptyOutcome();
  const contender = (name: string, start: Start) => ({
    name,
    run: () =>
      withReaders(bench, start, readerCount, undefined, (server, path, readers) =>
        saturate(bench, name, server, path, readers, outcome),
      ),
  });
  const turns = await takeTurns(bench, "deliveries", "deliveries/s", [
    contender(OURS, (directory) => bench.startOurs(directory)),
    contender(BARE_FAN_OUT, startBareFanOut),
  ]);
  outcome.figures.push(...turns.figures);
  outcome.comparisons.push(...turns.comparisons);
  outcome.targets.push(ownTarget(turns.figures[0]!, ">=", LEAST_DELIVERIES_PER_SECOND));
  return outcome;
}

async function saturate(
  bench: Bench,
  name: string,
  server: RunningServer,
  path: string,
  readers: SseReaders,
  outcome: Outcome,
): Promise<number> {
  const { delivery } = readers;
  let rate = 0;
  const clock = async () => {
    await sleep(bench.options.quick ? 500 : 2000);
    const before = delivery.deliveries;
    const startedAt = performance.now();
    await sleep(bench.options.seconds * 1000);
    rate = (delivery.deliveries - before) / ((performance.now() - startedAt) / 1000);
  };
  const published = 1 + (await publishSaturated(server.url, path, readers, clock()));
  await settled(readers, published);
  const expected = published * delivery.perReader.length;
  if (delivery.deliveries !== expected || delivery.cutOff > 0) {
    const off = `${formatNumber(delivery.deliveries)} of ${formatNumber(expected)} deliveries`;
    recordTrouble(outcome, name, `${off}, ${delivery.cutOff} readers cut off in one round.`);
  }
  return rate;
}

async function runLatency(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const contender = (name: string, start: Start) => ({
    name,
    run: async () => {
      const latenciesMs: number[] = [];
      let counting = false;
      const onStamp = (stampMicros: number) => {
        if (counting) latenciesMs.push(performance.now() - stampMicros / 1000);
      };
      return withReaders(bench, start, LATENCY_READERS, onStamp, async (server, path, readers) => {
        const warmed = await publishPaced(server.url, path, LATENCY_EVERY_MS, bench.options.quick ? 0.5 : 2);
        await settled(readers, 1 + warmed);
        counting = true;
        const published = await publishPaced(server.url, path, LATENCY_EVERY_MS, bench.options.seconds);
        await settled(readers, 1 + warmed + published);
        const expected = published * LATENCY_READERS;
        if (latenciesMs.length !== expected) {
          recordTrouble(outcome, name, `${latenciesMs.length} of ${expected} deliveries in one round.`);
        }
        const sorted = Float64Array.from(latenciesMs).sort();
        bench.log(`  p50 ${percentile(sorted, 50).toFixed(2)} ms, highest ${percentile(sorted, 100).toFixed(2)} ms`);
        return percentile(sorted, 99);
      });
    },
  });
  const turns = await takeTurns(bench, "p99 from due to delivered", "ms", [
    contender(OURS, (directory) => bench.startOurs(directory)),
    contender(BARE_FAN_OUT, startBareFanOut),
  ]);
  outcome.figures.push(...turns.figures);
  outcome.comparisons.push(...turns.comparisons);
  outcome.targets.push(ownTarget(turns.figures[0]!, "<=", MOST_P99_MS));
  return outcome;
}

/** A fresh server with one stream, every reader connected and proven to receive. */
async function withReaders(
  bench: Bench,
  start: Start,
  readerCount: number,
  onStamp: ((stampMicros: number) => void) | undefined,
  measure: (server: RunningServer, path: string, readers: SseReaders) => Promise<number>,
): Promise<number> {
  const directory = bench.freshDirectory("sse");
  const server = await start(directory);
  const path = streamPath("sse");
  await createStreams(server.url, [path], "application/json", 1);
  const readers = await SseReaders.open(server.url, path, readerCount, onStamp);
  await publishOne(server.url, path);
  await settled(readers, 1);
  if (readers.slowest() < 1) throw new Error("not every SSE reader received the first message");
  const value = await measure(server, path, readers);
  readers.close();
  await server.stop();
  bench.removeDirectory(directory);
  return value;
}

/** Waits until every reader has that many messages, up to a generous limit. */
async function settled(readers: SseReaders, messages: number): Promise<void> {
  const deadline = performance.now() + CATCH_UP_LIMIT_MS;
  while (readers.slowest() < messages && performance.now() < deadline) await sleep(20);
}
