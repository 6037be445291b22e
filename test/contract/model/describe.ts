/**
 * Random operations on `memory` and on another engine must be indistinguishable, restarts included. An engine's own test file
 * calls `describeModel`. A failure prints its seed and path; SLUICE_SEED runs that seed again, SLUICE_DEEP=1 runs seeds for
 * minutes.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { openMemory } from "../../../packages/server/src/engine/memory/memory.ts";
import { manualWorld } from "../../support/world.ts";
import type { OpenEngine } from "../suite/fixture.ts";
import { Driver } from "./driver.ts";
import { type Operation, operations } from "./operations.ts";

const deep = process.env.SLUICE_DEEP === "1";
/** By default one seed, so that the work does not depend on how fast the machine is. */
const RUN_MS = deep ? 120_000 : 0;
/** How long a failure is shrunk before it is reported. */
const SHRINK_MS = 20_000;
const RUNS_PER_SEED = 12;

const memory: OpenEngine = async () => {
  const world = manualWorld(1);
  const engine = openMemory({ world });
  const { advance, setClock } = world;
  return { engine, world, advance, setClock, close: () => engine.close() };
};

/** Compares after every operation, then the whole state, then the whole state again after a restart. */
async function agree(open: OpenEngine, isTimeless: boolean, sequence: readonly Operation[]): Promise<void> {
  const [one, two] = [await memory(), await open()];
  try {
    const [reference, candidate] = [new Driver(one, isTimeless), new Driver(two, isTimeless)];
    for (const operation of sequence) expect(await candidate.run(operation)).toEqual(await reference.run(operation));
    expect(await candidate.dump()).toEqual(await reference.dump());
    await Promise.all([reference.restart(), candidate.restart()]);
    expect(await candidate.dump()).toEqual(await reference.dump());
  } finally {
    await Promise.all([one.close(), two.close()]);
  }
}

/** Runs one seed after another until the time is over; shrinks the first failure for a while, then throws it. */
async function search(open: OpenEngine, isTimeless: boolean, sequences: fc.Arbitrary<Operation[]>): Promise<void> {
  const endMs = Date.now() + RUN_MS;
  let failedMs: number | undefined;
  const property = fc.asyncProperty(sequences, async (sequence) => {
    if (failedMs !== undefined && Date.now() > failedMs + SHRINK_MS) return;
    try {
      await agree(open, isTimeless, sequence);
    } catch (difference) {
      failedMs ??= Date.now();
      throw difference;
    }
  });
  let seed = Number(process.env.SLUICE_SEED ?? Date.now() & 0x7fffffff);
  do await fc.assert(property, { seed: seed++, numRuns: RUNS_PER_SEED });
  while (Date.now() < endMs);
}

export function describeModel(name: string, open: OpenEngine, { isTimeless = false } = {}): void {
  const timeoutMs = RUN_MS + SHRINK_MS + 60_000;
  describe(`${name}, compared with memory`, () => {
    it(
      "gives the same results in long runs of operations",
      () => search(open, isTimeless, operations(false, 120)),
      timeoutMs,
    );
    it(
      "gives the same results with restarts between operations",
      () => search(open, isTimeless, operations(true, 40)),
      timeoutMs,
    );
  });
}
