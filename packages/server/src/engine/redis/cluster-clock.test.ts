/** A node's estimate of the masters' time, while clocks are set. */
import { expect, test } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import { ClusterClock } from "./cluster-clock.ts";

const HOUR_MS = 3_600_000;
const SAMPLE_MS = 10_000;

function setUp() {
  const world = manualWorld(1);
  const clock = new ClusterClock(world, SAMPLE_MS);
  /** A reply from a master whose clock is this far ahead of this machine's first time. */
  const reply = (aheadMs: number, tookMs = 2) => {
    const sentMs = world.monotonicMs();
    world.advance(tookMs);
    clock.learn(sentMs, world.monotonicMs(), START_MS + world.monotonicMs() - tookMs / 2 + aheadMs);
  };
  const START_MS = world.now();
  return { world, clock, reply, masterMs: (aheadMs: number) => START_MS + world.monotonicMs() + aheadMs };
}

test("the masters' time does not move when this machine's clock is set, forward or back", () => {
  const { world, clock, reply, masterMs } = setUp();
  reply(500);
  for (const byMs of [HOUR_MS, -2 * HOUR_MS]) {
    world.setClock(byMs);
    world.advance(1_000);
    expect(clock.now()).toBe(masterMs(500));
  }
});

test("time goes on, at half speed, after the masters' clock was set back", () => {
  const { world, clock, reply, masterMs } = setUp();
  reply(0);
  const before = clock.now();
  expect(before).toBe(masterMs(0));
  // The earlier reply is no better any more.
  world.advance(SAMPLE_MS);
  reply(-HOUR_MS);
  const after = clock.now();
  expect(after).toBeGreaterThan(before);
  world.advance(60_000);
  expect(clock.now()).toBe(after + 30_000);
});

test("the fastest reply decides, until it is too old", () => {
  const { world, clock, reply, masterMs } = setUp();
  reply(500, 20);
  expect(clock.now()).toBe(masterMs(500));
  reply(900, 40);
  expect(clock.now()).toBe(masterMs(500));
  reply(600, 10);
  expect(clock.now()).toBe(masterMs(600));
  world.advance(SAMPLE_MS);
  reply(900, 40);
  expect(clock.now()).toBe(masterMs(900));
});
