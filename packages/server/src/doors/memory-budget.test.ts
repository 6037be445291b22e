import { expect, test } from "vitest";
import { MemoryBudget } from "./memory-budget.ts";

const LIMITS = { memoryBytes: 800, smallBytes: 50 };

test.each([
  ["a small holder may use the last byte", 799, 1, 0, true],
  ["and no more than that", 800, 1, 0, false],
  ["a holder of exactly the limit is small", 750, 50, 0, true],
  ["a large holder may use seven eighths", 0, 700, 0, true],
  ["and leaves the last eighth to small ones", 0, 701, 0, false],
  ["a holder that grows beyond the limit is large from then on", 700, 1, 50, false],
  ["a large holder finds no room in the last eighth, which small ones use already", 760, 51, 0, false],
])("%s", (_, used, bytes, held, isTaken) => {
  const budget = new MemoryBudget(LIMITS);
  for (let i = 0; i < used; i++) budget.take(1);
  expect(budget.hasRoom(bytes, held)).toBe(isTaken);
  expect(budget.take(bytes, held)).toBe(isTaken);
  expect(budget.usedBytes).toBe(isTaken ? used + bytes : used);
});

test("bytes that are given back can be taken again", () => {
  const budget = new MemoryBudget(LIMITS);
  expect(budget.take(700)).toBe(true);
  expect(budget.take(100)).toBe(false);
  budget.give(300);
  expect(budget.take(300)).toBe(true);
  budget.give(700);
  expect(budget.usedBytes).toBe(0);
});
