// The input and the outcome of a scenario. A file in scenarios/ exports one or more; main.ts runs them and report.ts prints them.
//
// Invariants: a ratio is always Sluice's value divided by the peer's of the same round, so that a slow spell of the machine
// affects both.

import type { RunningServer } from "./child.ts";
import type { Options } from "./options.ts";

export interface Bench {
  readonly options: Options;
  readonly tools: { readonly wrk: boolean; readonly redis: boolean };
  /** A fresh, empty directory that is removed when the scenario is over. */
  freshDirectory(label: string): string;
  /** Removes such a directory early, so that rounds do not pile up data. */
  removeDirectory(path: string): void;
  startOurs(dataDirectory: string, nodeArgs?: readonly string[], settings?: readonly string[]): Promise<RunningServer>;
  log(line: string): void;
}

export interface Scenario {
  readonly name: string;
  readonly title: string;
  /** Whether wrk makes the load. Without wrk the scenario is left out and the result says so. */
  readonly needsWrk: boolean;
  run(bench: Bench): Promise<Outcome>;
}

/** One quantity of one contender, a value per round. */
export interface Figure {
  readonly contender: string;
  readonly what: string;
  readonly unit: string;
  readonly values: readonly number[];
}

/** Sluice's value over a peer's, a ratio per round. */
export interface Comparison {
  readonly what: string;
  readonly peer: string;
  readonly ratios: readonly number[];
}

export interface TargetLine {
  readonly what: string;
  readonly target: string;
  readonly measured: string;
  /** Undefined if the measurement cannot tell. */
  readonly met: boolean | undefined;
}

export interface Outcome {
  readonly figures: Figure[];
  readonly comparisons: Comparison[];
  readonly targets: TargetLine[];
  /** Notes for the reader of the figures: comparisons left out, trouble of a peer, odd conditions. */
  readonly notes: string[];
  /** Refused, dropped or lost messages of Sluice. With one of these no target of the scenario is met. */
  readonly faults: string[];
}

export const OURS = "sluice";

export function emptyOutcome(): Outcome {
  return { figures: [], comparisons: [], targets: [], notes: [], faults: [] };
}

/** Trouble of Sluice is a fault, trouble of a peer is a note. */
export function recordTrouble(outcome: Outcome, contender: string, trouble: string): void {
  (contender === OURS ? outcome.faults : outcome.notes).push(`${contender}: ${trouble}`);
}
