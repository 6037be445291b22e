// Lets the contenders of a scenario take turns, round after round, and turns their values into ratios and targets. Every scenario
// with a peer calls takeTurns.
//
// Invariants: the order rotates by one each round, so that no contender always runs on the machine that another one has just
// heated up.

import { type Bench, type Comparison, type Figure, OURS, type TargetLine } from "./scenario.ts";
import { median, range } from "./statistics.ts";

export interface Contender {
  readonly name: string;
  /** Runs one round; returns the value to compare. */
  run(round: number): Promise<number>;
}

export async function takeTurns(
  bench: Bench,
  what: string,
  unit: string,
  contenders: readonly Contender[],
): Promise<{ figures: Figure[]; comparisons: Comparison[] }> {
  const values = new Map<string, number[]>(contenders.map((contender) => [contender.name, []]));
  for (let round = 0; round < bench.options.rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      const contender = contenders[(round + turn) % contenders.length]!;
      const value = await contender.run(round);
      values.get(contender.name)!.push(value);
      bench.log(`round ${round + 1}: ${contender.name} ${formatNumber(value)} ${unit}`);
    }
  }
  const figures = contenders.map(({ name }) => ({ contender: name, what, unit, values: values.get(name)! }));
  return { figures, comparisons: compareWithOurs(what, figures) };
}

export function compareWithOurs(what: string, figures: readonly Figure[]): Comparison[] {
  const ours = figures.find((figure) => figure.contender === OURS);
  if (!ours) return [];
  return figures
    .filter((figure) => figure !== ours)
    .map((peer) => ({
      what,
      peer: peer.contender,
      ratios: ours.values.map((value, round) => value / peer.values[round]!),
    }));
}

/** A target on the median ratio to one peer. */
export function ratioTarget(comparison: Comparison, atLeast: number): TargetLine {
  return {
    what: `${comparison.what}, ours / ${comparison.peer}`,
    target: `>= ${atLeast}x`,
    measured: `${formatSpread(comparison.ratios)}x`,
    met: median(comparison.ratios) >= atLeast,
  };
}

/** A target on the median of Sluice's own values; `direction` is the good side of the limit. */
export function ownTarget(figure: Figure, direction: ">=" | "<=", limit: number): TargetLine {
  const middle = median(figure.values);
  return {
    what: figure.what,
    target: `${direction} ${formatNumber(limit)} ${figure.unit}`,
    measured: `${formatSpread(figure.values)} ${figure.unit}`,
    met: direction === ">=" ? middle >= limit : middle <= limit,
  };
}

/** "median (lowest to highest)", or the one value. */
export function formatSpread(values: readonly number[]): string {
  const middle = formatNumber(median(values));
  if (values.length === 1) return middle;
  const [lowest, highest] = range(values);
  return `${middle} (${formatNumber(lowest)} to ${formatNumber(highest)})`;
}

export function formatNumber(value: number): string {
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  if (Math.abs(value) >= 100) return value.toFixed(0);
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
