// What a scenario is given and what it gives back.
// A file in scenarios/ exports one or more of these; main.ts runs them and report.ts prints them. Ratios are always
// ours divided by the peer's of the same round, so that a slow spell of the machine hits both.

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
  /** Without wrk there is no load for some scenarios; they are then left out and the result says so. */
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

/** Ours over a peer, a ratio per round. */
export interface Comparison {
  readonly what: string;
  readonly peer: string;
  readonly ratios: readonly number[];
}

export interface TargetLine {
  readonly what: string;
  readonly target: string;
  readonly measured: string;
  /** Undefined when the measurement cannot tell. */
  readonly met: boolean | undefined;
}

export interface Outcome {
  readonly figures: Figure[];
  readonly comparisons: Comparison[];
  readonly targets: TargetLine[];
  /** What a reader of the figures must know: comparisons left out, trouble of a peer, odd conditions. */
  readonly notes: string[];
  /** Where our server refused, dropped or lost something. With one of these no target of the scenario is met. */
  readonly faults: string[];
}

export const OURS = "sluice";

export function emptyOutcome(): Outcome {
  return { figures: [], comparisons: [], targets: [], notes: [], faults: [] };
}

/** Trouble of ours is a fault, trouble of a peer is a note. */
export function recordTrouble(outcome: Outcome, contender: string, trouble: string): void {
  (contender === OURS ? outcome.faults : outcome.notes).push(`${contender}: ${trouble}`);
}
