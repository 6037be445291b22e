import { afterEach, expect, test, vi } from "vitest";
import { takingBreaks } from "./thread-priority.ts";

afterEach(() => vi.restoreAllMocks());

test("a thread sleeps at its next chance once it has worked for a while, and then works again", () => {
  let nowMs = 0;
  vi.spyOn(performance, "now").mockImplementation(() => nowMs);
  const sleep = vi.spyOn(Atomics, "wait").mockReturnValue("timed-out");
  const takeBreak = takingBreaks();
  const afterWork = (ms: number) => {
    nowMs += ms;
    takeBreak();
    return sleep.mock.calls.length;
  };
  expect([afterWork(0.3), afterWork(0.2), afterWork(0.3), afterWork(5)]).toEqual([0, 1, 1, 2]);
});
