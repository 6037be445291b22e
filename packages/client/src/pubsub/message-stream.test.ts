/** A message stream over a port of the test: streams that end while they open, and listeners that answer at once. */
import { EventEmitter } from "node:events";
import type { Delivery, PullStream, StreamEvents } from "@sluice/protocol/pull";
import { expect, test } from "vitest";
import { MessageQueue } from "./message-queue.ts";
import { MessageStream, type Subscribed } from "./message-stream.ts";
import type { PullPort } from "./port.ts";

const opened: PullStream = { pause() {}, resume() {}, close() {}, setLimits() {}, setAckDeadline() {} };

function setUp(open: (to: StreamEvents, attempt: number) => Promise<PullStream>) {
  const timers: (() => void)[] = [];
  const acked: string[] = [];
  let attempts = 0;
  const port = {
    open: (_name: string, _asked: object, to: StreamEvents) => open(to, ++attempts),
    acknowledge: async (_name: string, ackIds: readonly string[]) => {
      acked.push(...ackIds);
      return ackIds.map(() => "done" as const);
    },
  };
  const after = (_ms: number, task: () => void) => {
    timers.push(task);
    return () => {};
  };
  const world = { monotonicMs: () => 0, after, soon: (task: () => void) => void setImmediate(task) };
  const queue = new MessageQueue(world, () => port as unknown as PullPort);
  const subscription = Object.assign(new EventEmitter(), { name: "s", queue });
  const stream = new MessageStream(subscription as unknown as Subscribed, {
    streamingOptions: { maxStreams: 1 },
    flowControl: { maxMessages: 10, allowExcessMessages: false },
  });
  return { stream, subscription, timers, acked, attempts: () => attempts };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test.each([
  ["and its opening fails too", true],
  ["and its opening succeeds", false],
])("a stream that ends while it opens, %s, opens once again", async (_, fails) => {
  let events: StreamEvents | undefined;
  let finish = () => {};
  const { stream, subscription, timers, attempts } = setUp((to, attempt) => {
    if (attempt > 1) return Promise.resolve(opened);
    events = to;
    return new Promise((resolve, reject) => {
      finish = () => (fails ? reject(new Error("the connection was lost")) : resolve(opened));
    });
  });
  const errors: unknown[] = [];
  subscription.on("error", (error) => errors.push(error));
  stream.start();
  await settled();
  events!.ended("moved");
  finish();
  await settled();
  expect([errors.length, timers.length]).toEqual([1, 1]);
  timers[0]!();
  await settled();
  expect(attempts()).toBe(2);
});

test("a listener that answers at once gets the next message after it has returned, and answers go in order", async () => {
  const COUNT = 20_000;
  let events: StreamEvents | undefined;
  const { stream, subscription, acked } = setUp(async (to) => {
    events = to;
    return opened;
  });
  let depth = 0;
  let deepest = 0;
  subscription.on("message", (message) => {
    deepest = Math.max(deepest, ++depth);
    message.ack();
    depth--;
  });
  stream.start();
  await settled();
  const deliveries = Array.from({ length: COUNT }, (_, i) => ({
    ...{ ackId: `${i}`, messageId: `${i}`, data: new Uint8Array(1), attributes: {} },
    ...{ publishedAt: 0, attempt: 1, deadlineAt: 0 },
  }));
  events!.deliver(deliveries as unknown as Delivery[]);
  await settled();
  await settled();
  expect(deepest).toBe(1);
  expect(acked).toEqual(deliveries.map(({ ackId }) => ackId));
});
