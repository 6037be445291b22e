/**
 * Linearizability of a stream, checked with its offsets as the witness. Called by index.ts.
 *
 * A stream is a list that only grows, so its end is a version of its state. Offsets tell the version that each write made
 * and that each read found, so no search is needed. The calls of a path have one order that explains all answers if and only
 * if, ordered by version,
 *
 *   1. no call returned before one with a smaller version was invoked (nothing seen is later unseen, and later writes go
 *      behind);
 *   2. no call found a version before the write that makes it was invoked (only written messages are seen);
 *   3. no call found the stream ending in the middle of a write (all of a write or none).
 *
 * Generations come first in an offset, so this spans the lives of a path: a message written after a stream was created anew
 * never sorts at or below an offset shown before. life.ts checks whether the stream lived at a given moment.
 */
import { comparePositions } from "@sluice/protocol";
import { show, showPosition } from "../history.ts";
import type { Ledger } from "./ledger.ts";
import { byPath, type Observation, observe } from "./observations.ts";

export function checkLinear(ledger: Ledger): string[] {
  const violations: string[] = [];
  for (const [path, observations] of byPath(observe(ledger))) {
    violations.push(...checkOrder(path, observations), ...checkWhole(ledger, observations));
  }
  return violations;
}

function checkOrder(path: string, observations: Observation[]): string[] {
  const violations: string[] = [];
  observations.sort(compareVersions);
  // The latest invocation of all calls with a smaller version, and of all calls so far.
  let smaller: Observation | undefined;
  let upToHere: Observation | undefined;
  for (const [i, one] of observations.entries()) {
    const previous = observations[i - 1];
    if (previous === undefined || compareVersions(previous, one) !== 0) smaller = upToHere;
    if (smaller && one.returned < smaller.invoked) {
      violations.push(
        `${path} was at ${showPosition(one.position)} and then before that, at ${showPosition(smaller.position)}: ` +
          `${show(one.call)} | ${show(smaller.call)}`,
      );
    }
    // A floor says "here or later", so it contradicts no later version.
    if (one.role !== "floor" && (upToHere === undefined || one.invoked > upToHere.invoked)) upToHere = one;
  }
  return violations;
}

function checkWhole(ledger: Ledger, observations: readonly Observation[]): string[] {
  const violations: string[] = [];
  for (const { role, path, position, call } of observations) {
    const incarnation = ledger.incarnation(path, position.generation);
    if (role !== "tail" || incarnation === undefined) continue;
    const within = ledger.mutations.find(
      (mutation) =>
        mutation.incarnation === incarnation && mutation.firstSeq <= position.seq && position.seq < mutation.lastSeq,
    );
    if (within) violations.push(`${path} ended in the middle of a write: ${show(call)} | ${show(within.call)}`);
  }
  return violations;
}

/** The write that makes a version sorts before the reads that find it. */
function compareVersions(a: Observation, b: Observation): number {
  return comparePositions(a.position, b.position) || Number(b.role === "write") - Number(a.role === "write");
}
