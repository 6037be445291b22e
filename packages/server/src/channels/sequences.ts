/**
 * Which sequences a channel has taken, and where each lies in the log. Kept as runs, of which a publisher that leaves
 * nothing out has one for ever. Pure; the publish rule calls it.
 */
import type { Position } from "@sluice/protocol";
import type { Run } from "./state.ts";

/** `gap`: the sequence that should have come instead, when some were left out before this one. */
export interface Placed {
  readonly position: Position;
  readonly sequence: number;
  readonly gap: number | undefined;
}

export type Found =
  | { readonly kind: "new" }
  | (Placed & { readonly kind: "repeated" })
  /** Left out when its turn was, or lower than all that is remembered. */
  | { readonly kind: "passed" };

/** The last sequence taken. `lastSeq` is the number of the last message. */
export function lastSequence(runs: readonly Run[], lastSeq: number): number {
  const run = runs.at(-1)!;
  return run.from + lastSeq - run.seq;
}

export function find(runs: readonly Run[], lastSeq: number, sequence: number): Found {
  if (sequence > lastSequence(runs, lastSeq)) return { kind: "new" };
  let end = lastSeq;
  for (let i = runs.length - 1; i >= 0; i--) {
    const { from, seq, generation } = runs[i]!;
    if (sequence > from + end - seq) return { kind: "passed" };
    if (sequence >= from) {
      const position = { generation, seq: seq + sequence - from };
      const before = sequence === from && i > 0 ? lastSequence(runs.slice(0, i), seq - 1) + 1 : sequence;
      return { kind: "repeated", position, sequence, gap: before === sequence ? undefined : before };
    }
    end = seq - 1;
  }
  return { kind: "passed" };
}

/**
 * The runs once a message with this sequence lies at `position`, right after the last; the same list when it goes on. A publisher
 * that leaves out more often than `maxRuns` loses the oldest, and with them the answers to late repetitions.
 */
export function extended(runs: readonly Run[], position: Position, sequence: number, maxRuns: number): readonly Run[] {
  const last = runs.at(-1);
  const goesOn =
    last !== undefined && last.generation === position.generation && sequence - last.from === position.seq - last.seq;
  if (goesOn) return runs;
  const run: Run = { from: sequence, seq: position.seq, generation: position.generation };
  return [...runs, run].slice(-maxRuns);
}
