/** The circuit breaker over time: what each fan-out's result makes of it, and which publishes it lets wait. */
import { expect, it } from "vitest";
import { Breaker, type Circuit } from "./breaker.ts";

const LIMITS = { breakerFailures: 3, breakerRecoveryMs: 1_000 };

/** A report of copies that succeeded and failed, or a publish that asks whether it may wait. */
type Step =
  | readonly ["report", successes: number, failures: number, at: number]
  | readonly ["ask", at: number, boolean];
const failed = (at: number): Step => ["report", 0, 1, at];
const opened = [failed(1), failed(2), failed(3)];

const rows: readonly (readonly [name: string, steps: readonly Step[], at: number, circuit: Circuit])[] = [
  [
    "a new breaker is closed and lets every publish wait",
    [
      ["ask", 0, true],
      ["ask", 0, true],
    ],
    0,
    "closed",
  ],
  ["one failure fewer than the limit leaves it closed", [failed(1), failed(2), ["ask", 2, true]], 2, "closed"],
  ["it opens at the limit of failures in a row", [...opened, ["ask", 3, false]], 3, "open"],
  [
    "a fan-out without a failure ends the row of failures",
    [failed(1), failed(2), ["report", 5, 0, 3], failed(4)],
    4,
    "closed",
  ],
  [
    "a partial failure counts as a failure while it is closed",
    [
      ["report", 9, 1, 1],
      ["report", 9, 1, 2],
      ["report", 9, 1, 3],
    ],
    3,
    "open",
  ],
  [
    "it stays open until the recovery time has passed since the last failure",
    [...opened, ["ask", 1_002, false]],
    1_002,
    "open",
  ],
  ["it is half-open once the recovery time has passed", opened, 1_003, "half-open"],
  [
    "half-open, it lets one publish wait and no second one",
    [...opened, ["ask", 1_003, true], ["ask", 1_003, false]],
    1_003,
    "half-open",
  ],
  [
    "a test that fails opens it again for the whole recovery time",
    [...opened, ["ask", 1_003, true], failed(1_500), ["ask", 2_499, false]],
    2_499,
    "open",
  ],
  [
    "after a failed test the next test comes when the recovery time has passed again",
    [...opened, ["ask", 1_003, true], failed(1_500), ["ask", 2_500, true]],
    2_500,
    "half-open",
  ],
  [
    "a test with one success closes it although other copies failed",
    [...opened, ["ask", 1_003, true], ["report", 1, 9, 1_004], ["ask", 1_004, true]],
    1_004,
    "closed",
  ],
  [
    "after a test has closed it, failures are counted from zero",
    [...opened, ["ask", 1_003, true], ["report", 1, 0, 1_004], failed(1_005), failed(1_006)],
    1_006,
    "closed",
  ],
  [
    "a test without any live session closes it",
    [...opened, ["ask", 1_003, true], ["report", 0, 0, 1_004]],
    1_004,
    "closed",
  ],
];

it.each(rows)("%s", (_name, steps, at, circuit) => {
  const breaker = new Breaker(LIMITS);
  for (const step of steps) {
    if (step[0] === "report") breaker.report(step[1], step[2], step[3]);
    else expect(breaker.admits(step[1])).toBe(step[2]);
  }
  expect(breaker.circuit(at)).toBe(circuit);
});
