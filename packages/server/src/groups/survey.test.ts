import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Leader, newLeader } from "./leader-state.ts";
import { Survey } from "./survey.ts";

const STEP_MS = 1_000;
const PER_STEP = 100;
const at = (seq: number) => ({ generation: 1, seq });

/** Leaders of groups whose streams are processed up to message 4 of 10. */
function stage(groups: Readonly<Record<string, number>>) {
  const world = manualWorld(1);
  const leaders = new Map<string, Leader>();
  for (const [group, streams] of Object.entries(groups)) {
    const rows = Array.from({ length: streams }, (_, i) => [`${group}/${i}`, { at: at(4) }] as const);
    leaders.set(`p/group/share/${group}/#`, newLeader(1, rows, 0));
  }
  let looks = 0;
  const after = async () => {
    looks++;
    return { tail: at(10), oldestMs: world.now() - 7_000 };
  };
  const survey = new Survey({
    world,
    now: () => world.now(),
    leaders: () => leaders,
    after,
    stepMs: STEP_MS,
    perStep: PER_STEP,
  });
  survey.start();
  const pass = async () => {
    world.advance(STEP_MS);
    // Each look is a promise.
    for (let i = 0; i < 20 * PER_STEP; i++) await Promise.resolve();
  };
  return { survey, leaders, pass, looks: () => looks };
}

test("a survey looks at a limited number of streams per step, however many there are", async () => {
  const { survey, pass, looks } = stage({ a: 250 });
  const steps: number[] = [];
  for (let before = 0, i = 0; i < 4; i++) {
    await pass();
    steps.push(looks() - before);
    before = looks();
  }
  expect(Math.max(...steps)).toBeLessThanOrEqual(PER_STEP);
  expect(steps[0]! + steps[1]! + steps[2]!).toBe(250);
  expect(survey.backlogs).toMatchObject({ lag: 250 * 6, greatestLag: 250 * 6 });
  survey.stop();
});

test("the figures are sums over all groups, the greatest lag, and the greatest age; a group that is led elsewhere counts no more", async () => {
  const { survey, leaders, pass } = stage({ a: 3, b: 1 });
  await pass();
  expect(survey.backlogs).toEqual({ lag: 24, pending: 0, oldestSeconds: 7, greatestLag: 18 });
  leaders.delete("p/group/share/a/#");
  await pass();
  expect(survey.backlogs).toMatchObject({ lag: 6, greatestLag: 6 });
  survey.stop();
});

test("without groups a survey looks at nothing", async () => {
  const { survey, pass, looks } = stage({});
  await pass();
  expect([looks(), survey.backlogs.lag]).toEqual([0, 0]);
  survey.stop();
});
