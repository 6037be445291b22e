import { expect, it } from "vitest";
import { entity } from "../engine/contract.ts";
import type { ReadOutcome } from "../streams/reading.ts";
import type { Agent, SessionEffect } from "./agent.ts";
import type { Settlement } from "./messages.ts";
import { QueueConsumer } from "./queue-consumer.ts";

const position = { generation: 1, seq: 7 };

/** What a member says and is told of a lease whose message is read with this outcome. */
async function leased(outcome: object) {
  const settlements: Settlement[] = [];
  const told: unknown[] = [];
  let perform: (effect: SessionEffect) => void = () => {};
  const subscription = { settle: (some: readonly Settlement[]) => void settlements.push(...some), isHeld: () => true };
  const agent = {
    subscribe: (_: unknown, to: typeof perform) => {
      perform = to;
      return subscription;
    },
  };
  const streams = { peek: async () => outcome as ReadOutcome };
  const events = new Proxy({} as ConstructorParameters<typeof QueueConsumer>[2], {
    get:
      (_, name) =>
      (...members: unknown[]) =>
        told.push([name, ...members]),
  });
  const parts = { world: { monotonicMs: () => 0 }, streams, agent: agent as unknown as Agent, pageBytes: 1 };
  new QueueConsumer(parts, { group: entity("p", "group", "g"), member: "m", credit: 1 }, events);
  perform({ kind: "leased", stream: "t", position, lease: 3, attempt: 1, untilMs: 1_000 } as SessionEffect);
  await new Promise(setImmediate);
  perform({ kind: "settled", lease: 3, isGone: false } as SessionEffect);
  return { settlements, told };
}

it.each([
  { kind: "trimmed", earliest: { generation: 1, seq: 9 } },
  { kind: "lost", survived: { generation: 1, seq: 4 } },
])(
  "a message that its stream has no more is settled for good, and its client is told of the gap: %o",
  async (outcome) => {
    const { settlements, told } = await leased(outcome);
    expect(settlements).toMatchObject([{ lease: 3, verdict: "ack" }]);
    expect(told).toEqual([["gap", "t", { generation: 1, seq: 6 }, position]]);
  },
);

it("a message of a stream that cannot be read is given back", async () => {
  const { settlements, told } = await leased({ kind: "absent" });
  expect(settlements).toMatchObject([{ lease: 3, verdict: "nack" }]);
  expect(told).toEqual([]);
});
