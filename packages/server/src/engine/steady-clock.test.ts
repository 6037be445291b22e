/** The clock of the engines, while the machine's clock is set. */
import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { SteadyClock } from "./steady-clock.ts";

const HOUR_MS = 3_600_000;

function setUp() {
  const world = manualWorld(1);
  return { world, clock: new SteadyClock(world) };
}

test("the clock shows the machine's time while that is not set", () => {
  const { world, clock } = setUp();
  for (let i = 0; i < 10; i++) {
    expect(clock.now()).toBe(world.now());
    world.advance(1_001);
  }
});

test("a machine's clock that is set forward is followed at once", () => {
  const { world, clock } = setUp();
  clock.now();
  world.setClock(HOUR_MS);
  expect(clock.now()).toBe(world.now());
});

test("after the machine's clock is set back, time passes at half speed until that clock has caught up", () => {
  const { world, clock } = setUp();
  const before = clock.now();
  world.setClock(-HOUR_MS);
  expect(clock.now()).toBe(before);
  world.advance(60_000);
  expect(clock.now()).toBe(before + 30_000);
  world.advance(2 * HOUR_MS - 60_000);
  expect(clock.now()).toBe(before + HOUR_MS);
  world.advance(1_000);
  expect(clock.now()).toBe(world.now());
});
