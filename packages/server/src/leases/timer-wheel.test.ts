import fc from "fast-check";
import { expect, test } from "vitest";
import { TimerWheel } from "./timer-wheel.ts";

test("a message comes up at its time or within a tick, never earlier, and once", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: 5_000 }), { maxLength: 50 }),
      fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 60 }),
      (times, steps) => {
        const wheel = new TimerWheel<string>(50, 1_000);
        for (const ms of times) wheel.add(ms % 2 === 0 ? "even" : "odd", 1_000 + ms, 1_000 + ms);
        const taken: number[] = [];
        let now = 1_000;
        for (const step of steps) {
          now += step;
          for (const [log, due] of wheel.take(now)) {
            for (const dueMs of due) {
              expect(dueMs).toBeLessThanOrEqual(now);
              expect(dueMs % 2 === 0 ? "even" : "odd").toBe(log);
              taken.push(dueMs);
            }
          }
          const late = times.map((ms) => 1_000 + ms).filter((ms) => ms + 50 <= now);
          for (const ms of late) expect(taken).toContain(ms);
        }
        expect(wheel.size).toBe(times.length - taken.length);
      },
    ),
  );
});

test("it says when to look next, and not later than it was asked to look ahead", () => {
  const wheel = new TimerWheel<string>(100, 0);
  expect(wheel.nextMs(1_000)).toBeUndefined();
  wheel.add("a", 7, 350);
  expect(wheel.nextMs(1_000)).toBe(400);
  expect(wheel.nextMs(200)).toBe(200);
  expect(wheel.take(399)).toEqual([]);
  expect(wheel.take(400)).toEqual([["a", [7]]]);
});

test("a message that is added late comes up at the next tick", () => {
  const wheel = new TimerWheel<string>(100, 0);
  wheel.take(1_000);
  wheel.add("late", 7, 500);
  expect(wheel.take(1_050)).toEqual([]);
  expect(wheel.take(1_100)).toEqual([["late", [7]]]);
});
