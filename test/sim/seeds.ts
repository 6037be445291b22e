/**
 * Runs a scenario over many seeds. The tests of this folder call it. A failure names its seed and the command to repeat it:
 *
 *   SLUICE_SEED=123 npx vitest run test/sim      that seed alone, in every scenario; SLUICE_LOG=1 prints its whole log
 *   SLUICE_SEEDS=50                              so many seeds per scenario
 *   SLUICE_DEEP=1                                1,000 times as many
 */
import { describe, expect, it } from "vitest";
import type { Scenario } from "./scenario.ts";
import { type Outcome, simulate } from "./simulation.ts";
import type { OpenStorage } from "./storage.ts";

const { SLUICE_SEED, SLUICE_SEEDS, SLUICE_DEEP, SLUICE_LOG } = process.env;
const DEEP_FACTOR = 1_000;
const MS_PER_SEED = 1_000;

interface SeedOptions {
  /** Whether the default run also repeats a seed on this storage; false where another suite does. The deep run always does. */
  readonly isRepeated: boolean;
}

export function describeSeeds(
  title: string,
  openStorage: OpenStorage,
  scenarios: readonly Scenario[],
  count: number,
  { isRepeated }: SeedOptions = { isRepeated: true },
): void {
  const seeds = seedsOf(count);
  describe(title, () => {
    for (const scenario of scenarios) {
      const limitMs = 30_000 + seeds.length * MS_PER_SEED;
      it(`${scenario.name} (${seeds.length} seeds)`, () => runAll(scenario, openStorage, seeds), limitMs);
    }
    if (!isRepeated && SLUICE_DEEP !== "1") return;
    it("two runs of a seed write the same log, and two seeds write different logs", async () => {
      // What makes a run repeatable is the simulated world, which all scenarios share.
      const repeated = SLUICE_DEEP === "1" ? scenarios : scenarios.slice(0, 1);
      for (const scenario of repeated) await repeat(scenario, openStorage, seeds.at(-1)!);
    }, 120_000);
  });
}

function seedsOf(count: number): number[] {
  if (SLUICE_SEED !== undefined) return [Number(SLUICE_SEED)];
  const asked = SLUICE_SEEDS === undefined ? count : Number(SLUICE_SEEDS);
  return Array.from({ length: SLUICE_DEEP === "1" ? asked * DEEP_FACTOR : asked }, (_, i) => i + 1);
}

async function runAll(scenario: Scenario, openStorage: OpenStorage, seeds: readonly number[]): Promise<void> {
  for (const seed of seeds) {
    const outcome = await simulate(scenario, openStorage, seed, SLUICE_LOG === "1");
    if (SLUICE_LOG === "1") console.log(outcome.log.join("\n"));
    if (outcome.violations.length > 0) throw new Error(report(scenario, seed, outcome));
  }
}

async function repeat(scenario: Scenario, openStorage: OpenStorage, seed: number): Promise<void> {
  const logOf = async (of: number) => (await simulate(scenario, openStorage, of, true)).log;
  const [one, two] = [await logOf(seed), await logOf(seed)];
  const text = one.join("\n");
  // Compared as a whole first, because a diff of equal logs would take longer than the runs.
  if (two.join("\n") !== text) expect(two).toEqual(one);
  expect((await logOf(seed + 1)).join("\n") === text).toBe(false);
}

const MAX_SHOWN = 10;
const MAX_STORY = 400;

function report(scenario: Scenario, seed: number, { violations, story, steps, boots }: Outcome): string {
  const rest = violations.length - MAX_SHOWN;
  return [
    `seed ${seed} (${steps} events, ${boots} boots) broke a promise in: ${scenario.name}`,
    ...violations.slice(0, MAX_SHOWN),
    ...(rest > 0 ? [`and ${rest} more`] : []),
    `run it again: SLUICE_SEED=${seed} npx vitest run test/sim -t ${JSON.stringify(scenario.name)}`,
    "what happened:",
    ...story.slice(-MAX_STORY),
  ].join("\n");
}
