/**
 * Model-based tests: random operations on `memory` and on another engine must be indistinguishable, restarts included.
 * A failure prints its seed and path; SLUICE_SEED runs that seed again, SLUICE_DEEP=1 runs for minutes instead of seconds.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { manualWorld } from "../support/world.ts";
import type { OpenEngine } from "./engine-suite.ts";
import { Driver } from "./model/driver.ts";
import { type Operation, operations } from "./model/operations.ts";
import { diskOpener, EAGER } from "./open-disk.ts";

const deep = process.env.SLUICE_DEEP === "1";
const LIMIT_MS = deep ? 300_000 : 5_000;
const seed = process.env.SLUICE_SEED === undefined ? undefined : Number(process.env.SLUICE_SEED);

const memory: OpenEngine = async () => {
  const world = manualWorld(1);
  const engine = openMemory({ world });
  return { engine, advance: world.advance, close: () => engine.close() };
};
/** Compares after every operation, then everything there is, then everything again after a restart. */
async function agree(open: OpenEngine, sequence: readonly Operation[]): Promise<void> {
  const [one, two] = [await memory(), await open()];
  try {
    const [reference, candidate] = [new Driver(one), new Driver(two)];
    for (const operation of sequence) expect(await candidate.run(operation)).toEqual(await reference.run(operation));
    expect(await candidate.dump()).toEqual(await reference.dump());
    await Promise.all([reference.restart(), candidate.restart()]);
    expect(await candidate.dump()).toEqual(await reference.dump());
  } finally {
    await Promise.all([one.close(), two.close()]);
  }
}

function describeModel(name: string, open: OpenEngine): void {
  describe(`${name}, compared with memory`, () => {
    for (const [title, restarts, length] of [
      ["cannot be told apart by long runs of operations", false, 120],
      ["cannot be told apart by operations with restarts in between", true, 40],
    ] as const) {
      it(
        title,
        async () => {
          const property = fc.asyncProperty(operations(restarts, length), (sequence) => agree(open, sequence));
          const numRuns = deep ? 100_000 : 1_000;
          await fc.assert(property, {
            numRuns,
            interruptAfterTimeLimit: LIMIT_MS,
            ...(seed === undefined ? {} : { seed }),
          });
        },
        LIMIT_MS * 10,
      );
    }
  });
}

describeModel("disk", diskOpener("inline"));
describeModel("disk that reads from its store", diskOpener("inline", EAGER));
if (deep) describeModel("disk with its thread", diskOpener("thread", EAGER));
