/** The ten behavior requirements of the subscriber, by their numbers, and what the library promises besides. */
import { FlowControl, type Message, MessageStream, PubSub } from "@sluice/server/pubsub";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryDir } from "../support/disk.ts";
import { eventually } from "../support/eventually.ts";
import { collected, KINDS, pubSubWorld, texts } from "./pubsub-world.ts";

async function codeOf(call: () => unknown): Promise<number | undefined> {
  try {
    await call();
    return undefined;
  } catch (fault) {
    return (fault as { code?: number }).code;
  }
}

describe.each(KINDS)("The library %s (%s)", (...kind) => {
  it("BR-001: start begins to pull, emits messages, and respects flow control", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s").create();
    await publish("before");
    const received = collected(subscription);
    const stream = new MessageStream(subscription, { flowControl: { maxMessages: 2 } });
    expect(received).toEqual([]);
    stream.start();
    await publish("after", "beyond");
    await sleep(50);
    expect(texts(received)).toEqual(["before", "after"]);
  });

  it("BR-002: pulling stops at maxMessages in flight and resumes below it", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s", { flowControl: { maxMessages: 3 } }).create();
    const received = collected(subscription);
    subscription.open();
    await publish(..."abcdefg");
    await sleep(50);
    expect(received).toHaveLength(3);
    for (const message of received.slice(0, 3)) message.ack();
    await sleep(50);
    expect(received).toHaveLength(6);
  });

  it("BR-003: pulling stops at maxBytes in flight and resumes below it; a message above the limit alone is delivered", async () => {
    const { topic, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s", { flowControl: { maxBytes: 100 } }).create();
    const received = collected(subscription);
    subscription.open();
    for (let i = 0; i < 3; i++) await topic.publishMessage({ data: Buffer.alloc(250) });
    for (const count of [1, 2, 3]) {
      await sleep(50);
      expect(received).toHaveLength(count);
      received.at(-1)!.ack();
    }
  });

  it("BR-004: a batch may exceed the limit if excess is allowed, and then nothing comes until there is room", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const options = { flowControl: { maxMessages: 2, allowExcessMessages: true } };
    const subscription = await topic.subscription("s", options).create();
    await publish(..."abcd");
    const received = collected(subscription);
    subscription.open();
    await sleep(50);
    expect(received).toHaveLength(4);
    await publish("e");
    received[0]!.ack();
    received[1]!.ack();
    await sleep(50);
    expect(received).toHaveLength(4);
    received[2]!.ack();
    await sleep(50);
    expect(texts(received).sort()).toEqual([..."abcde"]);
  });

  it("BR-005: a message is emitted again with the same id after ackDeadline seconds, also while the stream is paused", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s", { ackDeadline: 2 }).create();
    const received = collected(subscription);
    subscription.open();
    await publish("a");
    await sleep(1_950);
    expect(received).toHaveLength(1);
    await sleep(150);
    expect(received).toHaveLength(2);
    expect(received[1]).toMatchObject({ id: received[0]!.id, deliveryAttempt: 2 });
    subscription.pause();
    await sleep(2_100);
    expect(received).toHaveLength(2);
    subscription.resume();
    await sleep(50);
    expect(received).toHaveLength(3);
  });

  it("BR-006: messages of one key wait for the acknowledgement before them, those of other keys do not", async () => {
    const { topic, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s", { messageOrdering: true }).create();
    const received = collected(subscription);
    subscription.open();
    for (const text of ["x1", "x2", "y1", "y2"])
      await topic.publishMessage({ data: Buffer.from(text), orderingKey: text[0]! });
    await sleep(50);
    expect(texts(received).sort()).toEqual(["x1", "y1"]);
    received.find(({ orderingKey }) => orderingKey === "x")!.ack();
    await sleep(50);
    expect(texts(received).sort()).toEqual(["x1", "x2", "y1"]);
    received.find(({ orderingKey }) => orderingKey === "y")!.nack();
    await sleep(50);
    expect(texts(received).sort()).toEqual(["x1", "x2", "y1", "y1"]);
  });

  it("BR-007: pause stops pulling while messages in flight are processed, resume goes on", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s").create();
    const received = collected(subscription);
    subscription.open();
    await publish("a");
    await sleep(50);
    subscription.pause();
    await publish("b");
    await received[0]!.ackWithResponse();
    await sleep(50);
    expect(texts(received)).toEqual(["a"]);
    // Nothing is pulled meanwhile: another subscriber gets the message.
    const other = topic.subscription("s");
    const others = collected(other, true);
    other.open();
    await sleep(50);
    expect(texts(others)).toEqual(["b"]);
    await other.close();
    await publish("c");
    subscription.resume();
    await sleep(50);
    expect(texts(received)).toEqual(["a", "c"]);
  });

  it("BR-008: stop pulls no more, waits for acknowledgements or deadlines, and emits close", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s", { ackDeadline: 1 }).create();
    const received = collected(subscription);
    let closes = 0;
    subscription.on("close", () => closes++);
    subscription.open();
    await publish("acked", "left");
    await sleep(50);
    const closing = subscription.close();
    await publish("late");
    received[0]!.ack();
    await sleep(500);
    expect(closes).toBe(0);
    await sleep(600);
    await closing;
    expect(closes).toBe(1);
    expect(texts(received)).toEqual(["acked", "left"]);
    subscription.open();
    await sleep(50);
    expect(texts(received.slice(2)).sort()).toEqual(["late", "left"]);
  });

  it("BR-008: close can give back what is in flight, at once or after a time", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s").create();
    const received = collected(subscription);
    subscription.open();
    await publish("a");
    await sleep(50);
    await subscription.close({ mode: "nack" });
    subscription.open();
    await sleep(50);
    expect(received).toHaveLength(2);
    const closing = subscription.close({ timeout: 5 });
    await sleep(5_100);
    await closing;
    subscription.open();
    await sleep(50);
    expect(received).toHaveLength(3);
  });

  it("BR-009: an error that may pass is emitted and the stream opens again with backoff; a fatal one ends it", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s").create();
    const { queue } = subscription;
    const open = queue.stream.bind(queue);
    let failures = 0;
    queue.stream = (...asked) => (failures++ < 10 ? Promise.reject(new Error("a glitch")) : open(...asked));
    const errors: Error[] = [];
    subscription.on("error", (error) => errors.push(error));
    const received = collected(subscription, true);
    let isClosed = false;
    subscription.on("close", () => {
      isClosed = true;
    });
    subscription.open();
    await publish("a");
    await sleep(50);
    expect(errors).toHaveLength(5);
    expect(errors[0]).toMatchObject({ code: 13, message: "a glitch" });
    await sleep(60_000);
    expect(texts(received)).toEqual(["a"]);
    expect(isClosed).toBe(false);
    await subscription.delete();
    await sleep(50);
    expect(errors.at(-1)).toMatchObject({ code: 5, message: "Subscription not found" });
    expect(isClosed).toBe(true);
  });

  it("BR-010: maxStreams streams pull at the same time, and messages are spread over them", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s", { streamingOptions: { maxStreams: 3 } }).create();
    const { queue } = subscription;
    const open = queue.stream.bind(queue);
    const taken: number[] = [];
    queue.stream = (name, asked, to) => {
      const stream = taken.push(0) - 1;
      return open(name, asked, {
        ...to,
        deliver(messages) {
          taken[stream]! += messages.length;
          to.deliver(messages);
        },
      });
    };
    const received = collected(subscription, true);
    subscription.open();
    await sleep(10);
    await publish(...Array.from({ length: 30 }, (_, i) => String(i)));
    await sleep(50);
    expect(received).toHaveLength(30);
    expect(taken).toHaveLength(3);
    expect(Math.min(...taken)).toBeGreaterThan(0);
  });

  it("create takes the topic that is given, else that of the existing subscription, else the only topic, else fails with code 3", async () => {
    const { pubsub } = await pubSubWorld(...kind);
    const first = await pubsub.subscription("s").create();
    expect(await first.metadata()).toMatchObject({ topic: "my-topic", ackDeadlineMs: 60_000 });
    await pubsub.createTopic("other");
    expect(await codeOf(() => pubsub.subscription("n").create())).toBe(3);
    await pubsub.subscription("s", { ackDeadline: 30 }).create();
    expect(await first.metadata()).toMatchObject({ topic: "my-topic", ackDeadlineMs: 30_000 });
    await pubsub.subscription("n", { topic: "other" }).create();
    expect(await codeOf(() => pubsub.topic("my-topic").subscription("n").create())).toBe(6);
    expect(await codeOf(() => pubsub.topic("none").subscription("m").create())).toBe(5);
  });

  it("opening a subscription that does not exist is an error with code 5", async () => {
    const { pubsub, sleep } = await pubSubWorld(...kind);
    const subscription = pubsub.subscription("none");
    const errors: Error[] = [];
    subscription.on("error", (error) => errors.push(error));
    subscription.open();
    await sleep(50);
    expect(errors).toMatchObject([{ code: 5, message: "Subscription not found" }]);
  });

  it("two PubSubs share nothing", async () => {
    const [a, b] = [await pubSubWorld(...kind), await pubSubWorld(...kind)];
    await a.pubsub.createTopic("of-a");
    expect((await b.pubsub.getTopics()).map(({ name }) => name)).toEqual(["my-topic"]);
  });

  it("setOptions applies at the next pull, and messages beyond maxMessages wait up to highWaterMark", async () => {
    const { topic, publish, sleep } = await pubSubWorld(...kind);
    const options = { flowControl: { maxMessages: 1 }, streamingOptions: { highWaterMark: 2 } };
    const subscription = await topic.subscription("s", options).create();
    const received = collected(subscription);
    subscription.open();
    await publish(..."abcdef");
    await sleep(50);
    expect(texts(received)).toEqual(["a"]);
    const second = await topic.subscription("s").create();
    const others = collected(second, true);
    second.open();
    await sleep(50);
    expect(texts(others).sort()).toEqual(["d", "e", "f"]);
    await second.close();
    subscription.setOptions({ flowControl: { maxMessages: 3 } });
    await sleep(50);
    expect(texts(received)).toEqual(["a", "b", "c"]);
  });

  it("a subscription is iterated over, and leaving the loop closes it", async () => {
    const { topic, publish } = await pubSubWorld(...kind);
    const subscription = await topic.subscription("s").create();
    await publish("a", "b", "c");
    const seen: Message[] = [];
    for await (const message of subscription) {
      seen.push(message);
      await message.ackWithResponse();
      if (seen.length === 2) break;
    }
    expect(texts(seen)).toEqual(["a", "b"]);
    expect(subscription.isOpen).toBe(false);
  });
});

it("flow control throws code 8 beyond its limit, and nothing is told when it is reached", async () => {
  const flow = new FlowControl({ maxMessages: 1 });
  flow.add(10);
  expect(flow.isFull()).toBe(true);
  expect(() => flow.add(1)).toThrow(
    expect.objectContaining({ code: 8, message: "Flow control: max messages exceeded" }),
  );
  flow.remove(10);
  flow.add(1);
  expect(flow).toMatchObject({ messages: 1, bytes: 1 });
});

it("with a directory, topics, subscriptions and acknowledgements outlive the PubSub", async () => {
  const { dir, remove } = temporaryDir();
  onTestFinished(remove);
  const first = new PubSub({ data: dir });
  const topic = await first.createTopic("t");
  const subscription = await topic.subscription("s").create();
  for (const text of ["a", "b"]) await topic.publishMessage({ data: Buffer.from(text) });
  const received = collected(subscription);
  subscription.open();
  await eventually(() => expect(texts(received)).toEqual(["a", "b"]));
  await received[0]!.ackWithResponse();
  await subscription.close({ mode: "nack" });
  await first.close();
  const second = new PubSub({ data: dir });
  onTestFinished(() => second.close());
  const again = second.subscription("s");
  const later = collected(again, true);
  again.open();
  await eventually(() => expect(texts(later)).toEqual(["b"]));
  await again.close();
});
