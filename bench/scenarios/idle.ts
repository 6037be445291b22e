// idle: 100,000 unused streams: their cost at start-up (spawn to the ready line) and in memory. A stream's memory is the
// difference between two equal servers, one with all the streams and one with a fifth of them. A server's fixed memory, such as a
// buffer or a thread, is in both and cancels out. It is measured in the processes that created the streams, after a pause, and in
// processes that found them at start-up.

import { setTimeout as sleep } from "node:timers/promises";
import { createStreams, streamPath } from "../load/fill.ts";
import { HEAP_PROBE_ARGS, type Memory, measureMemory } from "../load/heap.ts";
import { ownTarget } from "../rounds.ts";
import { type Bench, emptyOutcome, type Figure, OURS, type Outcome, type Scenario } from "../scenario.ts";

const MOST_START_UP_SECONDS = 2;
const MOST_HEAP_BYTES = 1024;

export const idle: Scenario = {
  name: "idle",
  title: "100,000 idle streams",
  needsWrk: false,
  run: runIdle,
};

/** The same moment of two servers that differ only in the number of their streams. */
interface Pair {
  readonly few: Memory;
  readonly all: Memory;
}

async function runIdle(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const count = bench.options.quick ? 5_000 : 100_000;
  const pauseSeconds = bench.options.quick ? 5 : 30;
  const fewDirectory = bench.freshDirectory("few");
  const allDirectory = bench.freshDirectory("all");
  const created: Pair = {
    few: await createAndPause(bench, fewDirectory, count / 5, pauseSeconds),
    all: await createAndPause(bench, allDirectory, count, pauseSeconds),
  };

  const startUps: number[] = [];
  const emptyStartUps: number[] = [];
  const restarted: Pair[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    emptyStartUps.push(await startAndStop(bench, bench.freshDirectory("empty")));
    startUps.push(await startAndStop(bench, allDirectory));
    restarted.push({ few: await memoryOf(bench, fewDirectory), all: await memoryOf(bench, allDirectory) });
    bench.log(
      `round ${round + 1}: start-up ${startUps.at(-1)!.toFixed(2)} s (${emptyStartUps.at(-1)!.toFixed(2)} s when empty), ` +
        `${perStream("heapBytes", restarted.at(-1)!, count).toFixed(0)} bytes of heap per stream`,
    );
  }

  const figure = (what: string, unit: string, values: number[]): Figure => ({ contender: OURS, what, unit, values });
  const memory = (field: keyof Memory, pairs: readonly Pair[]) => pairs.map((pair) => perStream(field, pair, count));
  const startUp = figure("start-up", "s", startUps);
  const heapRestarted = figure("heap per stream after a restart", "bytes", memory("heapBytes", restarted));
  const heapCreated = figure(
    `heap per stream, ${pauseSeconds} s after creating them`,
    "bytes",
    memory("heapBytes", [created]),
  );
  outcome.figures.push(
    startUp,
    figure("start-up, empty directory", "s", emptyStartUps),
    heapRestarted,
    figure("memory outside the heap per stream after a restart", "bytes", memory("externalBytes", restarted)),
    figure("resident memory per stream after a restart", "bytes", memory("rssBytes", restarted)),
    heapCreated,
    figure("resident memory per stream after creating them", "bytes", memory("rssBytes", [created])),
  );
  outcome.targets.push(
    ownTarget(startUp, "<=", MOST_START_UP_SECONDS),
    ownTarget(heapRestarted, "<=", MOST_HEAP_BYTES),
    ownTarget(heapCreated, "<=", MOST_HEAP_BYTES),
  );
  return outcome;
}

async function createAndPause(bench: Bench, directory: string, count: number, pauseSeconds: number): Promise<Memory> {
  const server = await bench.startOurs(directory, HEAP_PROBE_ARGS);
  const startedAt = performance.now();
  const paths = Array.from({ length: count }, (_, i) => streamPath(`idle/${i}`));
  await createStreams(server.url, paths, "application/json", 64);
  bench.log(`created ${count} streams in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  await sleep(pauseSeconds * 1000);
  const memory = await measureMemory(server);
  await server.stop();
  return memory;
}

async function memoryOf(bench: Bench, directory: string): Promise<Memory> {
  const server = await bench.startOurs(directory, HEAP_PROBE_ARGS);
  const memory = await measureMemory(server);
  await server.stop();
  return memory;
}

async function startAndStop(bench: Bench, directory: string): Promise<number> {
  const server = await bench.startOurs(directory);
  await server.stop();
  return server.readyMs / 1000;
}

function perStream(field: keyof Memory, { few, all }: Pair, count: number): number {
  return (all[field] - few[field]) / (count - count / 5);
}
