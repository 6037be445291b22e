/** The ten acceptance criteria of the subscriber, by their numbers, with their timings on a clock that the test moves. */
import type { Message } from "@sluice/server/pubsub";
import { describe, expect, it } from "vitest";
import { collected, KINDS, pubSubWorld, texts } from "./pubsub-world.ts";

describe.each(KINDS)("The library %s (%s)", (...kind) => {
  it("AC-001: streaming pull delivers what is published", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = topic.subscription("my-sub");
    await subscription.create();
    const received = collected(subscription, true);
    subscription.open();
    await publish("msg1", "msg2", "msg3");
    await sleep(50);
    expect(received.length).toBe(3);
    await subscription.close();
  });

  it("AC-002: no more than maxMessages are in flight, and an acknowledgement makes room for one", async () => {
    const { pubsub, publish, sleep } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub", { flowControl: { maxMessages: 2 } });
    await subscription.create();
    const received = collected(subscription);
    subscription.open();
    await publish("msg0", "msg1", "msg2", "msg3", "msg4");
    await sleep(50);
    expect(received.length).toBe(2);
    received[0]!.ack();
    await sleep(50);
    expect(received.length).toBe(3);
  });

  it("AC-003: no more than maxBytes are in flight, and an acknowledgement makes room", async () => {
    const { pubsub, topic, sleep } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub", { flowControl: { maxBytes: 1024 } });
    await subscription.create();
    const received = collected(subscription);
    subscription.open();
    const data = Buffer.alloc(512);
    for (let i = 0; i < 3; i++) await topic.publishMessage({ data });
    await sleep(50);
    expect(received.length).toBe(2);
    received[0]!.ack();
    await sleep(50);
    expect(received.length).toBe(3);
  });

  it("AC-004: a message that is not acknowledged within its deadline is delivered again", async () => {
    const { pubsub, publish, sleep } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub", { ackDeadline: 1 });
    await subscription.create();
    let deliveryCount = 0;
    subscription.on("message", (message) => {
      deliveryCount++;
      if (deliveryCount > 1) message.ack();
    });
    subscription.open();
    await publish("test");
    await sleep(50);
    expect(deliveryCount).toBe(1);
    await sleep(1100);
    expect(deliveryCount).toBe(2);
  });

  it("AC-005: messages of one ordering key are delivered one after another, in order", async () => {
    const { pubsub, topic, sleep, delay, world } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub", { messageOrdering: true });
    await subscription.create();
    const receivedOrder: string[] = [];
    const processingTimes: number[] = [];
    let atOnce = 0;
    let mostAtOnce = 0;
    subscription.on("message", async (message) => {
      const startTime = world.now();
      receivedOrder.push(message.data.toString());
      mostAtOnce = Math.max(mostAtOnce, ++atOnce);
      await delay(50);
      atOnce--;
      processingTimes.push(world.now() - startTime);
      message.ack();
    });
    subscription.open();
    for (const text of ["first", "second", "third"])
      await topic.publishMessage({ data: Buffer.from(text), orderingKey: "user-123" });
    await sleep(200);
    expect(receivedOrder).toEqual(["first", "second", "third"]);
    expect(processingTimes[0]).toBeGreaterThanOrEqual(50);
    expect(processingTimes[1]).toBeGreaterThanOrEqual(50);
    expect(mostAtOnce).toBe(1);
  });

  it("AC-006: a paused subscription gets nothing until it is resumed", async () => {
    const { pubsub, publish, sleep } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub");
    await subscription.create();
    const received = collected(subscription, true);
    subscription.open();
    await publish("msg1");
    await sleep(50);
    expect(received.length).toBe(1);
    subscription.pause();
    await publish("msg2");
    await sleep(50);
    expect(received.length).toBe(1);
    subscription.resume();
    await sleep(50);
    expect(received.length).toBe(2);
  });

  it("AC-007: close waits for the messages that are being processed", async () => {
    const { pubsub, publish, sleep, delay } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub");
    await subscription.create();
    let processingComplete = false;
    subscription.on("message", async (message) => {
      await delay(100);
      processingComplete = true;
      message.ack();
    });
    subscription.open();
    await publish("test");
    await sleep(20);
    let isClosed = false;
    const stopPromise = subscription.close().then(() => {
      isClosed = true;
    });
    await sleep(50);
    expect(isClosed).toBe(false);
    await sleep(50);
    await stopPromise;
    expect(processingComplete).toBe(true);
  });

  it("AC-008: deleting the topic is told as an error", async () => {
    const { pubsub, topic, sleep } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub");
    await subscription.create();
    const errors: Error[] = [];
    subscription.on("error", (error) => errors.push(error));
    subscription.open();
    await topic.delete();
    await sleep(100);
    expect(errors.length).toBeGreaterThan(0);
    expect(errors).toMatchObject([{ code: 5, message: "Topic not found" }]);
  });

  it("AC-009: up to maxMessages are processed at the same time", async () => {
    const { pubsub, publish, sleep, world } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub", { flowControl: { maxMessages: 10 } });
    await subscription.create();
    const received: Message[] = [];
    subscription.on("message", (message) => {
      received.push(message);
      world.after(100, () => message.ack());
    });
    subscription.open();
    await publish(...Array.from({ length: 10 }, (_, i) => `msg${i}`));
    await sleep(50);
    expect(received.length).toBe(10);
  });

  it("AC-010: with allowExcessMessages the batch that reaches the limit is delivered whole", async () => {
    const { pubsub, publish, sleep } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("my-sub", { flowControl: { maxMessages: 5, allowExcessMessages: true } });
    await subscription.create();
    const received = collected(subscription);
    await publish(...Array.from({ length: 10 }, (_, i) => `msg${i}`));
    subscription.open();
    await sleep(50);
    expect(received.length).toBeGreaterThanOrEqual(5);
    expect(texts(received).sort()).toEqual(Array.from({ length: 10 }, (_, i) => `msg${i}`));
    await publish("later");
    await sleep(50);
    expect(received.length).toBe(10);
  });
});
