/**
 * How tests run a scenario over many seeds. A failure names its seed and how to run it again:
 *
 *   SLUICE_SEED=123 npx vitest run test/sim      that seed alone, in every scenario; SLUICE_LOG=1 prints its whole log
 *   SLUICE_SEEDS=50                              so many seeds per scenario
 *   SLUICE_DEEP=1                                twenty times as many
 */
import { describe, expect, it } from "vitest";
import type { Scenario } from "./scenario.ts";
import { type Outcome, simulate } from "./simulation.ts";
import type { OpenStorage } from "./storage.ts";

const { SLUICE_SEED, SLUICE_SEEDS, SLUICE_DEEP, SLUICE_LOG } = process.env;
/** One seed in so many is run twice, and both runs must log the same. */
const REPEAT_EVERY = 25;
const DEEP_FACTOR = 20;
const MS_PER_SEED = 1_000;

export function describeSeeds(
  title: string,
  openStorage: OpenStorage,
  scenarios: readonly Scenario[],
  count: number,
): void {
  const seeds = seedsOf(count);
  describe(title, () => {
    for (const scenario of scenarios) {
      it(
        `${scenario.name} (${seeds.length} seeds)`,
        () => runAll(scenario, openStorage, seeds),
        30_000 + seeds.length * MS_PER_SEED,
      );
    }
  });
}

function seedsOf(count: number): number[] {
  if (SLUICE_SEED !== undefined) return [Number(SLUICE_SEED)];
  const asked = SLUICE_SEEDS === undefined ? count : Number(SLUICE_SEEDS);
  return Array.from({ length: SLUICE_DEEP === "1" ? asked * DEEP_FACTOR : asked }, (_, i) => i + 1);
}

async function runAll(scenario: Scenario, openStorage: OpenStorage, seeds: readonly number[]): Promise<void> {
  for (const seed of seeds) {
    const isRepeated = seed % REPEAT_EVERY === 0 || seeds.length === 1;
    const outcome = await simulate(scenario, openStorage, seed, isRepeated);
    if (SLUICE_LOG === "1" && isRepeated) console.log(outcome.log.join("\n"));
    if (outcome.violations.length > 0) throw new Error(report(scenario, seed, outcome));
    if (!isRepeated) continue;
    const again = await simulate(scenario, openStorage, seed, true);
    // Compared as a whole first: a diff of equal logs would take longer than the run.
    if (again.log.join("\n") !== outcome.log.join("\n")) expect(again.log).toEqual(outcome.log);
  }
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
