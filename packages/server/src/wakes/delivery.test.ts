import { expect, it } from "vitest";
import type { Streams } from "../streams/service.ts";
import type { SigningKeys } from "./keys.ts";
import { Delivery, type Notification, type WebhookAnswer } from "./webhook-delivery.ts";

const NOTIFICATION = {
  project: "p",
  id: "s",
  meta: { incarnation: "i", base: "http://h/", config: { type: "webhook", webhookUrl: "http://h/hook", leaseMs: 1 } },
  wake: { id: "w", generation: 1, trigger: "a", secret: "x", tokenUntil: 1 },
} as unknown as Notification;

const turns = async () => {
  for (let i = 0; i < 10; i++) await Promise.resolve();
};

it("no more webhooks are called at once than there are lanes, and every other attempt gets its turn", async () => {
  const calls: ((answer: WebhookAnswer) => void)[] = [];
  const sender = { send: () => new Promise<WebhookAnswer>((resolve) => calls.push(resolve)), close: () => {} };
  const streams = { engine: { now: () => 0 } } as unknown as Streams;
  const keys = { sign: async () => ({ kid: "k", bytes: new Uint8Array(1) }) } as unknown as SigningKeys;
  const delivery = new Delivery(streams, keys, sender, 2);
  const outcomes: string[] = [];
  const attempt = () => void delivery.attempt(NOTIFICATION, async () => []).then((kind) => outcomes.push(kind));
  const answer = async (status: number) => {
    calls.shift()!({ kind: "answered", status, body: "" });
    await turns();
  };
  for (let i = 0; i < 4; i++) attempt();
  await turns();
  expect([calls.length, delivery.active, delivery.waiting]).toEqual([2, 2, 2]);
  await answer(200);
  attempt();
  await turns();
  expect([calls.length, delivery.active, delivery.waiting]).toEqual([2, 2, 2]);
  for (const status of [500, 200, 200, 200]) await answer(status);
  expect([calls.length, delivery.active, delivery.waiting]).toEqual([0, 0, 0]);
  expect(outcomes).toEqual(["sent", "failed", "sent", "sent", "sent"]);
});
