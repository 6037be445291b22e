import { expect, test } from "vitest";
import { backoffMs } from "./backoff.ts";

test("a delay starts at the first figure and doubles with each failure up to the largest", () => {
  const figures = { firstMs: 20, maxMs: 250 };
  expect([1, 2, 3, 4, 5, 6].map((failures) => backoffMs(failures, figures))).toEqual([20, 40, 80, 160, 250, 250]);
});

test("no failure yet counts as the first one", () => {
  expect(backoffMs(0, { firstMs: 20, maxMs: 250 })).toBe(20);
});

test("a delay stays a number after any count of failures", () => {
  expect(backoffMs(1_000_000, { firstMs: 1, maxMs: 2 ** 31 })).toBe(2 ** 31);
  expect(backoffMs(1_000_000, { firstMs: 0, maxMs: 1_000 })).toBe(0);
});

test("jitter multiplies the capped delay by a factor from its range", () => {
  const figures = { firstMs: 1_000, maxMs: 8_000, jitter: [0.8, 1.2] } as const;
  expect([0, 0.5, 0.999_9].map((random) => backoffMs(1, figures, random))).toEqual([800, 1_000, 1_200]);
  expect([0, 0.5].map((random) => backoffMs(99, figures, random))).toEqual([6_400, 8_000]);
});

test("without a jitter the random number has no effect", () => {
  expect(backoffMs(2, { firstMs: 10, maxMs: 100 }, 0.9)).toBe(20);
});
