import fc from "fast-check";
import { expect, test } from "vitest";
import { CHANNEL_LIMITS } from "./defaults.ts";
import { extended, find, lastSequence } from "./sequences.ts";
import type { Run } from "./state.ts";

const MAX_RUNS = CHANNEL_LIMITS.runs;

/** Steps between sequences: mostly one, sometimes more; now and then the generation rises. */
const steps = fc.array(
  fc.record({
    by: fc.oneof({ weight: 5, arbitrary: fc.constant(1) }, fc.integer({ min: 2, max: 9 })),
    raised: fc.boolean(),
  }),
  { maxLength: 200 },
);

interface Known {
  readonly sequence: number;
  readonly generation: number;
  readonly seq: number;
}

function history(first: number, all: readonly { by: number; raised: boolean }[]) {
  let generation = 1;
  let runs: readonly Run[] = extended([], { generation, seq: 1 }, first, MAX_RUNS);
  const known: Known[] = [{ sequence: first, generation, seq: 1 }];
  for (const { by, raised } of all) {
    if (raised && by > 1) generation++;
    const sequence = known.at(-1)!.sequence + by;
    const seq = known.length + 1;
    runs = extended(runs, { generation, seq }, sequence, MAX_RUNS);
    known.push({ sequence, generation, seq });
  }
  return { runs, known };
}

test("every sequence that was taken is found at its place, and every other one is new or passed", () => {
  fc.assert(
    fc.property(fc.nat(100), steps, (first, all) => {
      const { runs, known } = history(first, all);
      const last = known.at(-1)!;
      expect(lastSequence(runs, last.seq)).toBe(last.sequence);
      expect(runs.length).toBeLessThanOrEqual(MAX_RUNS);
      const forgottenBelow = runs[0]!.from;
      const bySequence = new Map(known.map((one, i) => [one.sequence, { ...one, before: known[i - 1] }]));
      for (let sequence = Math.max(0, first - 2); sequence <= last.sequence + 2; sequence++) {
        const found = find(runs, last.seq, sequence);
        const taken = bySequence.get(sequence);
        if (sequence > last.sequence) expect(found.kind).toBe("new");
        else if (taken === undefined || sequence < forgottenBelow) expect(found.kind).toBe("passed");
        else {
          const { generation, seq, before } = taken;
          // The first run that is remembered does not know what was before it.
          const isFirst = sequence === forgottenBelow;
          const gap =
            before === undefined || before.sequence === sequence - 1 || isFirst ? undefined : before.sequence + 1;
          expect(found).toEqual({ kind: "repeated", position: { generation, seq }, sequence, gap });
        }
      }
    }),
  );
});

test("a publisher that leaves nothing out has one run for ever", () => {
  let runs: readonly Run[] = [];
  for (let i = 1; i <= 5_000; i++) runs = extended(runs, { generation: 3, seq: i }, i + 6, MAX_RUNS);
  expect(runs).toEqual([{ from: 7, seq: 1, generation: 3 }]);
});
