import { expect, test } from "vitest";
import { Tally } from "./tally.ts";

test("a value counts in the first bucket whose bound it does not exceed, and beyond all bounds in the last", () => {
  const tally = new Tally([1, 2, 4]);
  for (const value of [0, 1, 1.5, 2, 3, 4, 5, 1_000]) tally.add(value);
  expect(tally.counts).toEqual([2, 2, 2, 2]);
  expect(tally.count).toBe(8);
  expect(tally.sum).toBe(1_016.5);
});
