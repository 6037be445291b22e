import { expect, it } from "vitest";
import type { Delivery } from "../../pull/contract.ts";
import { batchesOf } from "./deliveries.ts";

const delivery = (parts: Partial<Delivery>) =>
  ({
    ackId: "",
    messageId: "",
    data: new Uint8Array(0),
    attributes: {},
    publishedAt: 0,
    attempt: 1,
    ...parts,
  }) as Delivery;

it.each([
  ["data", { data: new Uint8Array(400) }],
  ["an ordering key", { orderingKey: "k".repeat(400) }],
  ["attribute values", { attributes: { a: "x".repeat(200), b: "x".repeat(200) } }],
  ["an attribute key", { attributes: { ["x".repeat(400)]: "" } }],
])("a response has the messages that fit, which count with %s", (_what, parts) => {
  const batches = [
    ...batchesOf(
      Array.from({ length: 5 }, () => delivery(parts)),
      {} as never,
      1_000,
    ),
  ];
  expect(batches.map(({ receivedMessages }) => receivedMessages.length)).toEqual([2, 2, 1]);
  for (const { bytes } of batches) expect(bytes).toBeLessThanOrEqual(1_000);
});

it("a message without data takes room too, and one that is too large goes alone", () => {
  const many = [
    ...batchesOf(
      Array.from({ length: 100 }, () => delivery({})),
      {} as never,
      1_000,
    ),
  ];
  expect(many.length).toBeGreaterThan(1);
  const large = delivery({ data: new Uint8Array(2_000) });
  expect([...batchesOf([large, large], {} as never, 1_000)]).toHaveLength(2);
});
