/** A different message under a stored sequence is refused. Each row is one decision on a small view. */
import { expect, it } from "vitest";
import {
  at,
  Channel,
  check,
  delta,
  end,
  LIMITS,
  message,
  type Row,
  start,
} from "../../../../test/support/rule-channel.ts";
import { publishRule } from "./rules.ts";
import type { Phase } from "./state.ts";

const other = (phase: Phase, sequence: number, payload = '"other"') => ({ ...message(phase, sequence), payload });
const gapped = [start, delta(4), delta(5)];
const whole = [start, delta(1), end(2)];
it.each<Row>([
  ["another payload is refused", [start, delta(1)], [other("DELTA", 1)], { kind: "taken", sequence: 1 }, [0, 1]],
  [
    "another phase is refused",
    [start, delta(1)],
    [other("END", 1, '"DELTA1"')],
    { kind: "taken", sequence: 1 },
    [0, 1],
  ],
  ["another answer is refused after END", whole, [start, other("DELTA", 1), end(2)], { kind: "ended" }, [0, 1, 2]],
  [
    "a different message refuses its whole request",
    [start, delta(1)],
    [other("DELTA", 1), delta(2)],
    { kind: "taken", sequence: 1 },
    [0, 1],
  ],
  [
    "two different messages in one request are refused",
    [start],
    [delta(1), other("DELTA", 1)],
    { kind: "taken", sequence: 1 },
    [0],
  ],
  ["another payload is refused after a gap", gapped, [other("DELTA", 4)], { kind: "taken", sequence: 4 }, [0, 4, 5]],
  [
    "the same payload in other characters is another one",
    [start, { ...delta(1), payload: "1.0" }],
    [other("DELTA", 1, "1")],
    { kind: "taken", sequence: 1 },
    [0, 1],
  ],
])("under a sequence that is stored, %s", check);

it("a stored message that was compared in an earlier channel is compared again in a later one", () => {
  const channel = new Channel(start, end(1));
  channel.publishAt(1_000, start, delta(1));
  const compared = new Map([[start, at(1, 1)]]);
  const again = publishRule(channel.view, 1_001, { channel: "c", messages: [start], compared }, LIMITS);
  expect(again.outcome).toMatchObject({ kind: "compare", pairs: [{ position: at(1, 2) }] });
});
