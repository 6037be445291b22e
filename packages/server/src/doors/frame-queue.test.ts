/** The messages of one connection: their order, when the door stops reading, and what the budget is charged for. */
import { expect, it } from "vitest";
import { utf8 } from "../core/bytes.ts";
import { FrameQueue } from "./frame-queue.ts";
import { MemoryBudget } from "./memory-budget.ts";

const settled = () => new Promise((resolve) => setImmediate(resolve));

function setUp({ memoryBytes = 1_000, queuedRequests = 2, smallBytes = 100 } = {}) {
  const budget = new MemoryBudget({ memoryBytes, smallBytes });
  const begun: string[] = [];
  const done: (() => void)[] = [];
  const calls: string[] = [];
  const handle = (frame: Uint8Array) => {
    begun.push(new TextDecoder().decode(frame));
    return new Promise<void>((resolve) => done.push(resolve));
  };
  const port = {
    pause: () => void calls.push("pause"),
    resume: () => void calls.push("resume"),
    cut: () => void calls.push("cut"),
  };
  const queue = new FrameQueue(handle, port, { queuedRequests, smallBytes }, budget);
  const arrive = (...texts: string[]) => texts.forEach((text) => void queue.arrive(utf8(text)));
  const finish = async () => {
    done.shift()!();
    await settled();
  };
  return { queue, budget, begun, calls, arrive, finish };
}

it("works on messages in order, one at a time, and the door reads no further while too many wait", async () => {
  const { begun, calls, arrive, finish } = setUp();
  arrive("a", "b", "c");
  expect([begun, calls]).toEqual([["a"], []]);
  arrive("d");
  expect([begun, calls]).toEqual([["a"], ["pause"]]);
  arrive("e");
  expect(calls).toEqual(["pause"]);
  await finish();
  await finish();
  expect([begun, calls]).toEqual([["a", "b", "c"], ["pause"]]);
  await finish();
  expect([begun, calls]).toEqual([
    ["a", "b", "c", "d"],
    ["pause", "resume"],
  ]);
});

it("counts bytes as well as messages, the one that is worked on included", async () => {
  const { calls, arrive, finish } = setUp();
  arrive("x".repeat(100));
  expect(calls).toEqual([]);
  arrive("y");
  expect(calls).toEqual(["pause"]);
  await finish();
  expect(calls).toEqual(["pause", "resume"]);
});

it("charges every message to the budget until it is done, also when the connection ends before", async () => {
  const { queue, budget, begun, arrive, finish } = setUp();
  arrive("aaaa", "bb", "c");
  expect(budget.usedBytes).toBe(7);
  await finish();
  expect(budget.usedBytes).toBe(3);
  queue.close();
  expect(budget.usedBytes).toBe(2);
  await finish();
  arrive("late");
  expect([budget.usedBytes, begun]).toEqual([0, ["aaaa", "bb"]]);
});

it("drops the connection whose message finds no room in the budget", () => {
  const { budget, calls, arrive } = setUp({ memoryBytes: 8 });
  arrive("123456", "789");
  expect([calls, budget.usedBytes]).toEqual([["cut"], 6]);
});
