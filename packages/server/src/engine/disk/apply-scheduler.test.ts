import { expect, test } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import { EngineError } from "../contract.ts";
import type { Applied, ApplyRunner } from "./apply-runner.ts";
import { type ApplyEvents, ApplyScheduler } from "./apply-scheduler.ts";
import { CHUNK_BYTES, DEFAULT_LIMITS, type Limits } from "./defaults.ts";
import type { Extent } from "./journal.ts";

const limits = { ...DEFAULT_LIMITS, applyAfterMs: 50, applyWithinMs: 1_000, applyBytes: 10_000 };

/** A scheduler on its own clock, with a fast applier that records the time and size of each run. */
function scheduled(waiting = 0, given: Partial<Limits> = {}, farShare = 0) {
  const world = manualWorld(1, 0);
  const worked: { readonly atMs: number; readonly bytes: number }[] = [];
  const faults: unknown[] = [];
  const told: (string | undefined)[] = [];
  const runner: ApplyRunner = {
    started: Promise.resolve(),
    async apply(extents, report) {
      const fault = faults.shift();
      if (fault !== undefined) throw fault;
      const bytes = extents.reduce((sum, { from, to }) => sum + to - from, 0);
      worked.push({ atMs: world.now(), bytes });
      for (const { segment, to, from } of extents) report({ lsn: to, segment, to, bytes: to - from } satisfies Applied);
      return false;
    },
    close: async () => {},
  };
  const events: ApplyEvents = {
    waiting: () => waiting,
    farShare: () => farShare,
    applied() {},
    stuck: (error) => void told.push(error?.code),
    failed: (error) => void told.push(`stopped: ${error.code}`),
  };
  const scheduler = new ApplyScheduler(world, { ...limits, ...given }, runner, events, false);
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
  return { worked, faults, told, durable, pass, scheduler };
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

const systemFault = (code: string) => Object.assign(new Error("made by the test"), { code });

test.each([
  ["storage-full", systemFault("ENOSPC")],
  ["overloaded", systemFault("EMFILE")],
  ["overloaded", new EngineError("overloaded", "from the worker's thread")],
])("work that meets a fault that passes (%s) is applied when it has passed", async (code, fault) => {
  const { worked, faults, told, durable, pass } = scheduled();
  faults.push(fault, fault);
  durable(10_000);
  await pass(0);
  await pass(limits.retryFullMs);
  expect([worked, told]).toEqual([[], [code, code]]);
  await pass(limits.retryFullMs);
  expect(worked).toMatchObject([{ bytes: 10_000 }]);
  expect(told).toEqual([code, code, undefined]);
});

test("a fault that does not pass ends the applier for good", async () => {
  const { worked, faults, told, durable, pass } = scheduled();
  faults.push(systemFault("EIO"));
  durable(10_000);
  await pass(60_000);
  expect([worked, told]).toEqual([[], ["stopped: storage-failed"]]);
});

test.each([
  ["one busy stream", 1, {}, 100_000],
  ["a few busy streams, until each can fill two pages", 10, {}, 20 * CHUNK_BYTES],
  ["more streams than can fill their pages", 1_000, {}, 100_000],
  ["a few busy streams with little room for lag, before writers wait", 10, { lagBytes: 800_000 }, 200_000],
])("much work of %s is applied at once", async (_, waiting, given, bytes) => {
  const { worked, durable, pass } = scheduled(waiting, { applyBytes: 100_000, ...given });
  durable(bytes - 1);
  await pass(1);
  expect(worked).toEqual([]);
  durable(1);
  await pass(1);
  expect(worked).toMatchObject([{ bytes }]);
});

test("scattered work is applied before there is much of it, because gathering saves nothing", async () => {
  const { worked, durable, pass } = scheduled(1_000, { applyBytes: 100_000 }, 0.9);
  durable(24_999);
  await pass(1);
  expect(worked).toEqual([]);
  durable(1);
  await pass(1);
  expect(worked).toMatchObject([{ bytes: 25_000 }]);
});
