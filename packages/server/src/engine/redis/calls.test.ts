import { expect, test } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import { Calls } from "./calls.ts";
import { Keys } from "./keys.ts";
import { RedisMeter } from "./meter.ts";
import type { Answer } from "./node.ts";
import { REDIS_LIMITS } from "./options.ts";
import type { Topology } from "./topology.ts";

const turns = async () => {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** Calls to a master that answers every function with this kind, and whose replicas confirm when the test says so. */
function callsTo(kind: string) {
  const world = manualWorld(1);
  const asked: ((reply: unknown) => void)[] = [];
  const topology = {
    isClosed: false,
    nodeOf: () => ({
      name: "master",
      call: (_: unknown, __: boolean, answer: Answer) => answer.done([kind, "h", "0"]),
    }),
    connectApart: () => ({ over: false, ask: () => new Promise((resolve) => asked.push(resolve)) }),
  } as unknown as Topology;
  const limits = { ...REDIS_LIMITS, waitReplicas: 1 };
  const calls = new Calls(topology, new Keys("t"), world, limits, new RedisMeter());
  const confirm = () => {
    for (const reply of ["h", 1]) asked.shift()?.(reply);
  };
  return { calls, confirm };
}

test.each([
  ["the general commit waits", "done", "run", true],
  ["the short commit waits", "done", "runText", true],
  ["a short commit that must be sent in the general form does not wait", "other", "runText", false],
  ["a call whose wrong answer does no harm does not wait", "done", "runPassing", false],
] as const)("if replicas are waited for, %s", async (_, kind, run, waits) => {
  const { calls, confirm } = callsTo(kind);
  let answer: unknown;
  void calls[run]("commit", 0, [], []).then(([told]) => {
    answer = told;
  });
  await turns();
  expect(answer).toBe(waits ? undefined : kind);
  confirm();
  await turns();
  expect(answer).toBe(kind);
});
