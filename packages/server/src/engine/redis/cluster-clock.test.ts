import { expect, test } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import { ClusterClock } from "./cluster-clock.ts";

const SAMPLE_MS = 10_000;

/** A clock whose replies take some time, from a master that is ahead of this node by so much. */
function setUp() {
  const world = manualWorld(1, 1_000_000);
  const clock = new ClusterClock(world, SAMPLE_MS);
  const reply = (tookMs: number, masterAheadMs: number) => {
    const sentMs = world.now();
    world.advance(tookMs);
    clock.learn(sentMs, world.now(), sentMs + tookMs / 2 + masterAheadMs);
  };
  return { world, clock, reply, ahead: () => clock.now() - world.now() };
}

test("the fastest reply decides, until it is too old", () => {
  const { world, reply, ahead } = setUp();
  reply(20, 500);
  expect(ahead()).toBe(500);
  reply(40, 900);
  expect(ahead()).toBe(500);
  reply(10, 600);
  expect(ahead()).toBe(600);
  world.advance(SAMPLE_MS);
  reply(40, 900);
  expect(ahead()).toBe(900);
});

test("time never runs backwards, although a later estimate is lower", () => {
  const { world, clock, reply } = setUp();
  reply(20, 500);
  const before = clock.now();
  reply(10, 100);
  expect(clock.now()).toBe(before);
  world.advance(1_000);
  expect(clock.now()).toBe(world.now() + 100);
});
