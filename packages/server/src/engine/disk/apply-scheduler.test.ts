import { expect, test } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import type { Applied, ApplyRunner } from "./apply-runner.ts";
import { ApplyScheduler } from "./apply-scheduler.ts";
import type { Extent } from "./journal.ts";
import { DEFAULT_LIMITS } from "./limits.ts";

const limits = { ...DEFAULT_LIMITS, applyAfterMs: 50, applyWithinMs: 1_000, applyBytes: 10_000 };

/** A scheduler on its own clock, with a fast applier that records the time and size of each run. */
function scheduled() {
  const world = manualWorld(1, 0);
  const worked: { readonly atMs: number; readonly bytes: number }[] = [];
  const runner: ApplyRunner = {
    isWorthDraining: true,
    async apply(extents, report) {
      const bytes = extents.reduce((sum, { from, to }) => sum + to - from, 0);
      worked.push({ atMs: world.now(), bytes });
      for (const { segment, to, from } of extents) report({ lsn: to, segment, to, bytes: to - from } satisfies Applied);
      return false;
    },
    close: async () => {},
  };
  const events = { applied() {}, full() {}, failed() {} };
  const scheduler = new ApplyScheduler(world, limits, runner, events, false);
  let end = 0;
  const durable = (bytes: number) => {
    const extent: Extent = { segment: 1, from: end, to: end + bytes };
    end += bytes;
    scheduler.durable(extent);
  };
  /** Advances the clock and lets settled promises run. */
  const pass = async (ms: number) => {
    world.advance(ms);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { worked, durable, pass, scheduler };
}

test("little work is applied after a quiet moment", async () => {
  const { worked, durable, pass } = scheduled();
  durable(100);
  await pass(49);
  expect(worked).toEqual([]);
  await pass(51);
  expect(worked).toMatchObject([{ bytes: 100 }]);
  await pass(10_000);
  expect(worked.length).toBe(1);
});

test("little work that keeps coming is gathered, and applied once in a while", async () => {
  const { worked, durable, pass } = scheduled();
  for (let i = 0; i < 300; i++) {
    durable(10);
    await pass(10);
  }
  // In three seconds: two or three runs, not sixty.
  expect(worked.length).toBeGreaterThanOrEqual(2);
  expect(worked.length).toBeLessThanOrEqual(3);
  await pass(100);
  expect(worked.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(3_000);
});

test("much work is applied at once", async () => {
  const { worked, durable, pass } = scheduled();
  durable(9_999);
  await pass(0);
  expect(worked).toEqual([]);
  durable(1);
  await pass(0);
  expect(worked).toEqual([{ atMs: 0, bytes: 10_000 }]);
});

test("waiting work is applied before the close completes", async () => {
  const { worked, durable, scheduler } = scheduled();
  durable(7);
  await scheduler.close();
  expect(worked).toMatchObject([{ bytes: 7 }]);
});
