// idle: 100,000 streams that nobody uses. What they cost at start-up (spawn to the ready line) and in memory, compared
// with the same server on an empty directory. Memory is taken twice: in the process that created the streams, once it
// has had time to let go of them, and in one that found them at start-up.

import { setTimeout as sleep } from "node:timers/promises";
import { createStreams, streamPath } from "../load/fill.ts";
import { HEAP_PROBE_ARGS, type Memory, measureMemory } from "../load/heap.ts";
import { ownTarget } from "../rounds.ts";
import { type Bench, emptyOutcome, type Figure, OURS, type Outcome, type Scenario } from "../scenario.ts";

const MOST_START_UP_SECONDS = 2;
const MOST_HEAP_BYTES = 1024;
const SETTLE_STEP_MS = 5_000;
const SETTLE_STEPS = 12;

export const idle: Scenario = {
  name: "idle",
  title: "100,000 idle streams",
  needsWrk: false,
  run: runIdle,
};

async function runIdle(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const count = bench.options.quick ? 1_000 : 100_000;
  const empty = await memoryOfEmpty(bench);
  const directory = bench.freshDirectory("idle");
  const created = await createAndSettle(bench, directory, count, empty, outcome.notes);

  const startUps: number[] = [];
  const emptyStartUps: number[] = [];
  const restarted: Memory[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    emptyStartUps.push(await startAndStop(bench, bench.freshDirectory("empty")));
    startUps.push(await startAndStop(bench, directory));
    const probed = await bench.startOurs(directory, HEAP_PROBE_ARGS);
    restarted.push(await measureMemory(probed));
    await probed.stop();
    bench.log(
      `round ${round + 1}: start-up ${startUps.at(-1)!.toFixed(2)} s (${emptyStartUps.at(-1)!.toFixed(2)} s when empty), ` +
        `${perStream(restarted.at(-1)!, empty, count).toFixed(0)} bytes of heap per stream`,
    );
  }
  const figure = (what: string, unit: string, values: number[]): Figure => ({ contender: OURS, what, unit, values });
  const startUp = figure("start-up", "s", startUps);
  const heapRestarted = figure(
    "heap per stream after a restart",
    "bytes",
    restarted.map((memory) => perStream(memory, empty, count)),
  );
  const heapCreated = figure("heap per stream where they were created", "bytes", [perStream(created, empty, count)]);
  const rss = figure(
    "resident memory per stream after a restart",
    "bytes",
    restarted.map((memory) => (memory.rssBytes - empty.rssBytes) / count),
  );
  outcome.figures.push(
    startUp,
    figure("start-up, empty directory", "s", emptyStartUps),
    heapRestarted,
    heapCreated,
    rss,
  );
  outcome.targets.push(
    ownTarget(startUp, "<=", MOST_START_UP_SECONDS),
    ownTarget(heapRestarted, "<=", MOST_HEAP_BYTES),
    ownTarget(heapCreated, "<=", MOST_HEAP_BYTES),
  );
  return outcome;
}

async function memoryOfEmpty(bench: Bench): Promise<Memory> {
  const server = await bench.startOurs(bench.freshDirectory("empty"), HEAP_PROBE_ARGS);
  const memory = await measureMemory(server);
  await server.stop();
  return memory;
}

/** Creates the streams and waits, up to a minute, until the process holds no more of them than the target allows. */
async function createAndSettle(
  bench: Bench,
  directory: string,
  count: number,
  empty: Memory,
  notes: string[],
): Promise<Memory> {
  const server = await bench.startOurs(directory, HEAP_PROBE_ARGS);
  const startedAt = performance.now();
  const paths = Array.from({ length: count }, (_, i) => streamPath(`idle/${i}`));
  await createStreams(server.url, paths, "application/json", 64);
  bench.log(`created ${count} streams in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  let memory = await measureMemory(server);
  let waitedMs = 0;
  for (let step = 0; step < SETTLE_STEPS && perStream(memory, empty, count) > MOST_HEAP_BYTES; step++) {
    await sleep(SETTLE_STEP_MS);
    waitedMs += SETTLE_STEP_MS;
    memory = await measureMemory(server);
  }
  notes.push(`Heap where the streams were created was taken ${waitedMs / 1000} s after the last was created.`);
  await server.stop();
  return memory;
}

async function startAndStop(bench: Bench, directory: string): Promise<number> {
  const server = await bench.startOurs(directory);
  await server.stop();
  return server.readyMs / 1000;
}

function perStream(memory: Memory, empty: Memory, count: number): number {
  return (memory.heapBytes - empty.heapBytes) / count;
}
