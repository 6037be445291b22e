import { expect, test } from "vitest";
import { type Head, NO_HEAD } from "./contract.ts";
import { isMemoryTruth, isNeverGiven, isWorkOursAlone, recheckAtMs } from "./other-nodes.ts";

const now = () => 1_000;
const alone = { exclusive: true, now };
const shared = { exclusive: false, now };
const at = (seq: number) => ({ generation: 1, seq });
const head: Head = { ...NO_HEAD, generation: 1, last: at(5) };

test("a node alone trusts its memory, and knows that no other node does its work", () => {
  expect([isMemoryTruth(alone), isWorkOursAlone(alone)]).toEqual([true, true]);
  expect([isMemoryTruth(shared), isWorkOursAlone(shared)]).toEqual([false, false]);
});

test("a recheck is due after its interval if other nodes write, and never otherwise", () => {
  expect([recheckAtMs(shared, 500), recheckAtMs(alone, 500)]).toEqual([1_500, null]);
});

test("a position beyond the tail was never given to a client, unless a failover may have lost messages", () => {
  expect([4, 5, 6].map((seq) => isNeverGiven(alone, head, at(seq)))).toEqual([false, false, true]);
  expect([4, 5, 6].map((seq) => isNeverGiven(shared, head, at(seq)))).toEqual([false, false, false]);
});
