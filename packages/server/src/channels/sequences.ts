/**
 * Which sequences a channel has stored, and where each lies in the log. They are kept as runs; a publisher that skips
 * nothing has one run forever. Pure; called by the publish rule.
 */
import type { Position } from "@sluice/protocol";
import type { Run } from "./state.ts";

/** `gap`: the sequence that was expected, if the publisher skipped some before this one. */
export interface Placed {
  readonly position: Position;
  readonly sequence: number;
  readonly gap: number | undefined;
}

export type Found =
  | { readonly kind: "new" }
  | (Placed & { readonly kind: "repeated" })
  /** The publisher skipped it, or it is lower than all remembered sequences. */
  | { readonly kind: "passed" };

/** The last sequence stored. `lastSeq` is the number of the last message. */
export function lastSequence(runs: readonly Run[], lastSeq: number): number {
  const run = runs.at(-1)!;
  return run.from + lastSeq - run.seq;
}

export function find(runs: readonly Run[], lastSeq: number, sequence: number): Found {
  if (sequence > lastSequence(runs, lastSeq)) return { kind: "new" };
  let end = lastSeq;
  for (let i = runs.length - 1; i >= 0; i--) {
    const { from, seq, generation, afterStop } = runs[i]!;
    const endBefore = afterStop ? seq - 2 : seq - 1;
    if (sequence > from + end - seq) return { kind: "passed" };
    if (sequence >= from) {
      const position = { generation, seq: seq + sequence - from };
      const before = sequence === from && i > 0 ? lastSequence(runs.slice(0, i), endBefore) + 1 : sequence;
      return { kind: "repeated", position, sequence, gap: before === sequence ? undefined : before };
    }
    end = endBefore;
  }
  return { kind: "passed" };
}

/** The runs after a request to stop is appended at `position`. The next run begins after it. */
export function afterStop(
  runs: readonly Run[],
  { generation, seq }: Position,
  lastSequence: number,
  maxRuns: number,
): readonly Run[] {
  const run: Run = { from: lastSequence + 1, seq: seq + 1, generation, afterStop: true };
  return [...runs, run].slice(-maxRuns);
}

/**
 * The runs after a message with this sequence is appended at `position`; the same list if it continues the last run. A
 * publisher with more than `maxRuns` gaps loses the oldest runs, and with them the answers to late repetitions.
 */
export function extended(runs: readonly Run[], position: Position, sequence: number, maxRuns: number): readonly Run[] {
  const last = runs.at(-1);
  const goesOn =
    last !== undefined && last.generation === position.generation && sequence - last.from === position.seq - last.seq;
  if (goesOn) return runs;
  const run: Run = { from: sequence, seq: position.seq, generation: position.generation };
  return [...runs, run].slice(-maxRuns);
}
