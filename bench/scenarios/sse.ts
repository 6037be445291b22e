// sse-100, sse-1000: readers of one stream, saturated, in deliveries per second; a delivery is one message that reaches one
// reader, also if messages share a write. sse-latency: 100 readers at 100 messages per second, from a message's due time to its
// arrival at a reader. Publishers and readers share this process and its clock. After each round every reader must have every
// acknowledged message; otherwise no target is met.

import type { RunningServer } from "../child.ts";
import { Latency, saturate, settled } from "../load/deliveries.ts";
import { createStreams, streamPath } from "../load/fill.ts";
import { publishOne } from "../load/publish.ts";
import { Readers, sseRequest } from "../load/readers.ts";
import { BARE_FAN_OUT, startBareFanOut } from "../peers/bare-fan-out.ts";
import { ownTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";

const LEAST_DELIVERIES_PER_SECOND = 300_000;
const LATENCY_READERS = 100;
const LATENCY_EVERY_MS = 10;
const MOST_P99_MS = 20;

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
        saturate({ bench, name, server, path, readers, outcome }),
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

async function runLatency(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const contender = (name: string, start: Start) => ({
    name,
    run: () => {
      const latency = new Latency();
      return withReaders(bench, start, LATENCY_READERS, latency.onStamp, (server, path, readers) =>
        latency.p99({ bench, name, server, path, readers, outcome }, LATENCY_EVERY_MS),
      );
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
  measure: (server: RunningServer, path: string, readers: Readers) => Promise<number>,
): Promise<number> {
  const directory = bench.freshDirectory("sse");
  const server = await start(directory);
  const path = streamPath("sse");
  await createStreams(server.url, [path], "application/json", 1);
  const readers = await Readers.open(server.url, new Array(readerCount).fill(sseRequest(server.url, path)), onStamp);
  await publishOne(server.url, path);
  await settled(readers, 1);
  if (readers.slowest() < 1) throw new Error("not every SSE reader received the first message");
  const value = await measure(server, path, readers);
  readers.close();
  await server.stop();
  bench.removeDirectory(directory);
  return value;
}
