import { expect, test } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import { Barriers } from "./barriers.ts";
import { libraryOf } from "./functions.ts";
import { Keys } from "./keys.ts";
import { RedisMeter } from "./meter.ts";
import { REDIS_LIMITS } from "./options.ts";
import type { Topology } from "./topology.ts";

const turns = async () => {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** Barriers before a master whose replies to a barrier, its history and its replicas, come when the test gives them. */
function barriers() {
  const asked: ((reply: unknown) => void)[] = [];
  const node = { over: false, ask: () => new Promise((resolve) => asked.push(resolve)) };
  const answer = async (history: string, replicas: number) => {
    for (const reply of [history, replicas]) asked.shift()!(reply);
    await turns();
  };
  const limits = { ...REDIS_LIMITS, waitReplicas: 1 };
  const topology = { connectApart: () => node } as unknown as Topology;
  const world = manualWorld(1);
  const made = new Barriers(topology, new Keys("t"), world, limits, libraryOf(limits), new RedisMeter());
  const outcomes: string[] = [];
  const pass = (name: string, history = "h") =>
    void made.pass("master", 0, history).then(
      () => outcomes.push(name),
      (fault: Error) => outcomes.push(`${name}: ${fault.message}`),
    );
  return { asked, answer, outcomes, pass };
}

test("an answer that comes while a barrier is under way waits for the next one", async () => {
  const { asked, answer, outcomes, pass } = barriers();
  pass("early");
  pass("of the same turn");
  await turns();
  pass("late");
  await turns();
  expect(asked, "one write and one WAIT").toHaveLength(2);
  await answer("h", 1);
  expect(outcomes).toEqual(["early", "of the same turn"]);
  await answer("h", 1);
  expect(outcomes).toEqual(["early", "of the same turn", "late"]);
});

test("a barrier releases no answer of another history, and none if a replica is missing", async () => {
  const { answer, outcomes, pass } = barriers();
  pass("before the failover", "old");
  pass("after it", "new");
  await turns();
  await answer("new", 1);
  expect(outcomes.sort()).toEqual(["after it", "before the failover: another master has taken over"]);
  pass("deaf", "new");
  await turns();
  await answer("new", 0);
  expect(outcomes.at(-1)).toBe("deaf: 0 of 1 replicas answer");
});
