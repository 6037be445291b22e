/** The service of pull on every engine, with a clock that the test moves: each promise of delivery by itself. */
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import type { Delivery, NewSubscription } from "../../packages/server/src/pull/contract.ts";
import { describeOnEngines } from "../e2e/server.ts";
import { codeOf } from "../support/refusal-code.ts";
import { P, pullNode, subscribedNode, texts } from "./pull-world.ts";

describeOnEngines("The service of pull", (engine) => {
  const subscribed = (asked?: Partial<NewSubscription>) => subscribedNode(engine, asked);

  it("a pull gets what was published after the subscription was created, once, and an empty one is answered at once", async () => {
    const node = await pullNode(engine);
    await node.topic();
    await node.publish("before");
    await node.subscribe();
    const ids = await node.publish("a", { data: Buffer.from("b"), attributes: { k: "v" }, orderingKey: "o" });
    const messages = await node.pull();
    expect(texts(messages)).toEqual(["a", "b"]);
    expect(messages[1]).toMatchObject({ messageId: ids[1], attributes: { k: "v" }, orderingKey: "o", attempt: 1 });
    expect(await node.pull()).toEqual([]);
  });

  it("a message that is not acknowledged comes again after its deadline with the next attempt, an acknowledged one does not", async () => {
    const node = await subscribed({ ackDeadlineMs: 10_000 });
    await node.publish("a", "b");
    const [a] = await node.pull();
    expect(await node.ack(a!)).toEqual(["done"]);
    await node.pass(9_900);
    expect(await node.pull()).toEqual([]);
    await node.pass(200);
    const again = await node.pull();
    expect(texts(again)).toEqual(["b"]);
    expect(again[0]!.attempt).toBe(2);
  });

  it("an extension moves the deadline, and a deadline of zero gives the message back", async () => {
    const node = await subscribed();
    await node.publish("a");
    const [first] = await node.pull();
    expect(await node.extend(60_000, first!)).toEqual(["done"]);
    await node.pass(50_000);
    expect(await node.pull()).toEqual([]);
    expect(await node.extend(0, first!)).toEqual(["done"]);
    expect(await node.pull()).toHaveLength(1);
    expect(await codeOf(() => node.extend(999, first!))).toBe("bad-request");
  });

  it("a nack with a delay brings the message back after the delay", async () => {
    const node = await subscribed();
    await node.publish("a");
    await node.nack(5_000, ...(await node.pull()));
    await node.pass(4_900);
    expect(await node.pull()).toEqual([]);
    await node.pass(200);
    expect(await node.pull()).toMatchObject([{ attempt: 2 }]);
  });

  it("a retry policy doubles the wait with every attempt, up to the longest, after a nack and after an expired deadline", async () => {
    const retryPolicy = { minBackoffMs: 10_000, maxBackoffMs: 25_000 };
    const node = await subscribed({ retryPolicy });
    await node.publish("a");
    for (const waitMs of [10_000, 20_000, 25_000]) {
      await node.nack(undefined, ...(await node.pull()));
      await node.pass(waitMs - 100);
      expect(await node.pull()).toEqual([]);
      await node.pass(200);
    }
    expect(await node.pull()).toMatchObject([{ attempt: 4 }]);
    await node.pass(10_100);
    expect(await node.pull()).toEqual([]);
    await node.pass(26_000);
    expect(await node.pull()).toMatchObject([{ attempt: 5 }]);
  });

  it("after its attempts a message goes to the dead-letter topic with its source, and a redrive publishes it again", async () => {
    const node = await subscribed({ deadLetter: { topic: "dead", maxAttempts: 2 } });
    await node.publish({ data: Buffer.from("a"), attributes: { k: "v" }, orderingKey: "o" }, "b");
    for (let i = 0; i < 2; i++) {
      const [a, b] = await node.pull();
      await node.nack(undefined, a!);
      if (i === 0) await node.nack(undefined, b!);
      else await node.ack(b!);
    }
    await node.settled();
    expect(await node.pull()).toEqual([]);
    const page = await node.streams.read(P, "dead", undefined, 10_000);
    expect(page).toMatchObject({ kind: "page", messages: [{ key: "o", attributes: { k: "v" } }] });
    expect(page.kind === "page" && page.messages[0]!.attributes).toMatchObject({
      CloudPubSubDeadLetterSourceDeliveryCount: "2",
      CloudPubSubDeadLetterSourceSubscription: "s",
      CloudPubSubDeadLetterSourceSubscriptionProject: P,
    });
    expect(await node.service.redrive(P, "s", FULL_ACCESS)).toBe(1);
    expect(await node.service.redrive(P, "s", FULL_ACCESS)).toBe(0);
    const [again] = await node.pull();
    expect(again).toMatchObject({ attributes: { k: "v" }, orderingKey: "o", attempt: 1 });
  });

  it("a filter delivers the messages that match, and the others count as acknowledged", async () => {
    const node = await subscribed({ filter: 'attributes.kind = "order"' });
    await node.publish({ attributes: { kind: "order" } }, "plain", { attributes: { kind: "other" } });
    const messages = await node.pull();
    expect(messages).toMatchObject([{ attributes: { kind: "order" } }]);
    await node.ack(...messages);
    await node.pass(11_000);
    expect(await node.pull()).toEqual([]);
  });

  it("an exactly-once subscription takes the newest ack id only, a plain one takes a late acknowledgement", async () => {
    for (const isExactlyOnce of [true, false]) {
      const node = await subscribed({ isExactlyOnce });
      await node.publish("a");
      const [first] = await node.pull();
      await node.pass(10_100);
      if (!isExactlyOnce) {
        expect(await node.ack(first!)).toEqual(["done"]);
        expect(await node.pull()).toEqual([]);
        continue;
      }
      const [second] = await node.pull();
      expect(await node.ack(first!)).toEqual(["gone"]);
      expect(await node.extend(20_000, first!)).toEqual(["gone"]);
      expect(await node.ack(second!)).toEqual(["done"]);
      expect(await node.ack(second!)).toEqual(["done"]);
      expect(await node.ack(first!)).toEqual(["gone"]);
    }
  });

  it("messages of one key go to one stream in order, and a redelivery brings the later ones of the key with it", async () => {
    const node = await subscribed({ isOrdered: true });
    const [a, b] = [await node.stream(), await node.stream()];
    const keyed = (data: string, orderingKey: string) => ({ data: Buffer.from(data), orderingKey });
    await node.publish(...["x1", "y1", "x2", "y2", "x3"].map((data) => keyed(data, data[0]!)));
    await node.settled();
    const streamOf = (key: string) => [a, b].filter(({ got }) => got.some(({ orderingKey }) => orderingKey === key));
    expect(streamOf("x")).toHaveLength(1);
    const xs = () => texts(streamOf("x").flatMap(({ got }) => got)).filter((text) => text.startsWith("x"));
    expect(xs()).toEqual(["x1", "x2", "x3"]);
    const x2 = streamOf("x")[0]!.got.find((one) => texts([one])[0] === "x2")!;
    await node.nack(undefined, x2);
    await node.settled();
    expect(xs()).toEqual(["x1", "x2", "x3", "x2", "x3"]);
  });

  it("a stream gets a thousand messages of one key in their order before it acknowledges the first", async () => {
    const node = await subscribed({ isOrdered: true });
    const { got } = await node.stream();
    const all = Array.from({ length: 1_600 }, (_, i) => String(i));
    for (let at = 0; at < all.length; at += 400)
      await node.publish(...all.slice(at, at + 400).map((data) => ({ data: Buffer.from(data), orderingKey: "k" })));
    await node.settled();
    expect(texts(got)).toEqual(all);
  });

  it("a sequential stream gets the next message of a key when the one before it is acknowledged", async () => {
    const node = await subscribed({ isOrdered: true });
    const { got } = await node.stream({ isSequential: true });
    await node.publish(...["a", "b", "c"].map((data) => ({ data: Buffer.from(data), orderingKey: "k" })));
    for (const expected of [["a"], ["a", "b"], ["a", "b", "c"]]) {
      await node.settled();
      expect(texts(got)).toEqual(expected);
      await node.ack(got.at(-1)!);
    }
  });

  it("a stream gets no more than its limits, and more as soon as it answers", async () => {
    const node = await subscribed();
    const few = await node.stream({ maxMessages: 2 });
    await node.publish("1", "2", "3", "4");
    await node.settled();
    expect(texts(few.got)).toEqual(["1", "2"]);
    await node.ack(few.got[0]!);
    await node.settled();
    expect(texts(few.got)).toEqual(["1", "2", "3"]);
    few.stream.close();
    const small = await node.stream({ maxBytes: 10 });
    await node.publish("x".repeat(9), "y");
    await node.settled();
    expect(texts(small.got)).toEqual(["4", "x".repeat(9)]);
  });

  it("streams that share limits have them together", async () => {
    const node = await subscribed();
    const all = await Promise.all([1, 2, 3].map(() => node.stream({ maxMessages: 4, shareOf: "client" })));
    await node.publish(..."abcdefgh");
    await node.settled();
    expect(all.flatMap(({ got }) => got)).toHaveLength(4);
    expect(all.filter(({ got }) => got.length > 0).length).toBeGreaterThan(1);
  });

  it("a paused stream gets nothing while its deadlines run on", async () => {
    const node = await subscribed();
    const { stream, got } = await node.stream();
    await node.publish("a");
    await node.settled();
    stream.pause();
    await node.publish("b");
    await node.pass(10_100);
    expect(texts(got)).toEqual(["a"]);
    stream.resume();
    await node.settled();
    expect(texts(got).sort()).toEqual(["a", "a", "b"]);
  });

  it("a paused subscription delivers nothing until it is resumed, and takes acknowledgements meanwhile", async () => {
    const node = await subscribed();
    await node.publish("a", "b");
    const [a] = await node.pull(1);
    await node.service.update(P, "s", { isPaused: true }, FULL_ACCESS);
    expect(await node.pull()).toEqual([]);
    expect(await node.ack(a!)).toEqual(["done"]);
    await node.service.update(P, "s", { isPaused: false }, FULL_ACCESS);
    expect(texts(await node.pull())).toEqual(["b"]);
  });

  it("a delayed message is delivered at its time, and holds up no other", async () => {
    const node = await subscribed();
    await node.publish({ data: Buffer.from("later"), deliverAtMs: node.world.now() + 5_000 }, "now");
    expect(texts(await node.pull())).toEqual(["now"]);
    await node.pass(5_100);
    const [later] = await node.pull();
    expect(later).toMatchObject({ attributes: {}, attempt: 1 });
  });

  it("a repeated message id is delivered once where the subscription deduplicates", async () => {
    const node = await subscribed({ deduplicates: true });
    await node.subscribe({}, "all");
    await node.publish({ id: "1", data: Buffer.from("a") }, { id: "1", data: Buffer.from("again") });
    await node.publish({ id: "2", data: Buffer.from("b") });
    expect(texts(await node.pull())).toEqual(["a", "b"]);
    expect(texts(await node.pull(10, "all"))).toEqual(["a", "again", "b"]);
  });

  it("an update turns the search for repeated ids on and off for what is read from then on", async () => {
    const node = await subscribed();
    await node.pull();
    for (const deduplicates of [true, false]) {
      await node.service.update(P, "s", { deduplicates }, FULL_ACCESS);
      await node.publish({ id: "1" }, { id: "1" });
      expect(await node.pull()).toHaveLength(deduplicates ? 1 : 2);
    }
  });

  it("a sharded topic is delivered whole, and each ack id finds its shard", async () => {
    const node = await pullNode(engine);
    await node.streams.create(P, "t", { config: { shards: 3 }, closed: false });
    await node.subscribe();
    await node.publish(...["a", "b", "c", "d"].map((data) => ({ data: Buffer.from(data), orderingKey: data })));
    const messages: Delivery[] = [];
    // A pull is answered as soon as the first shard has messages.
    for (let i = 0; i < 4; i++) messages.push(...(await node.pull()));
    expect(texts(messages).sort()).toEqual(["a", "b", "c", "d"]);
    expect(await node.ack(...messages.slice(1))).toEqual(["done", "done", "done"]);
    await node.pass(10_100);
    expect(texts(await node.pull())).toEqual(texts(messages.slice(0, 1)));
  });

  it("a payload that is not kept any more is read again for a later attempt, and counts for the limit of bytes", async () => {
    const node = await subscribed();
    const all = Array.from("abcde", (char) => char.repeat(100));
    await node.publish(...all);
    await node.pull();
    await node.pass(10_100);
    const few = await node.service.pull(P, "s", { maxMessages: 10, maxBytes: 250 }, FULL_ACCESS);
    expect(texts(few)).toEqual(all.slice(0, 3));
    expect(texts(await node.pull())).toEqual(all.slice(3));
  });

  it("a publish is answered before its messages are delivered", async () => {
    const node = await subscribed();
    const happened: string[] = [];
    await node.open({}, { deliver: () => void happened.push("delivered") });
    await node.settled();
    await node.publish("a").then(() => happened.push("answered"));
    await node.settled();
    expect(happened).toEqual(["answered", "delivered"]);
  });

  it("a publish that is refused for one of its messages stores none of them", async () => {
    const node = await pullNode(engine);
    await node.streams.create(P, "t", { config: { contentType: "application/json" }, closed: false });
    await node.subscribe();
    const messages = [{ data: Buffer.from("1"), attributes: { k: "v" } }, { data: Buffer.from("{") }];
    expect(await codeOf(() => node.publish(...messages))).toBe("bad-body");
    expect(await node.pull()).toEqual([]);
  });

  it("what is malformed is refused with a reason", async () => {
    const node = await subscribed();
    const create = (asked: object) => codeOf(() => node.service.create(P, "n", { topic: "t", ...asked }, FULL_ACCESS));
    expect(await create({ topic: "none" })).toBe("stream-not-found");
    expect(await create({ filter: "nonsense" })).toBe("bad-filter");
    expect(await create({ ackDeadlineMs: 999 })).toBe("bad-request");
    expect(await create({ deadLetter: { topic: "$x", maxAttempts: 5 } })).toBe("reserved-name");
    expect(await codeOf(() => node.service.create(P, "a/b", { topic: "t" }, FULL_ACCESS))).toBe("bad-request");
    expect(await codeOf(() => node.publish({ data: new Uint8Array(0) }))).toBe("bad-request");
    expect(await node.ack({ ackId: "nonsense" }, { ackId: "1-0-0-1-1" })).toEqual(["gone", "gone"]);
  });
});
