/**
 * StreamingPull and snapshots through Google's generated clients, which have no behavior of their own: signs of life, limits,
 * back-pressure.
 */
import { describe, expect, it, onTestFinished } from "vitest";
import { eventually, serverForTest, sleep } from "../e2e/server.ts";
import { google, insecure, kinds, PROJECT, publish, pubsubAt, subscriberOf, type Version } from "./google.ts";

function clientAt(version: Version, port: number) {
  const pubsub = pubsubAt(version, port);
  onTestFinished(() => pubsub.close());
  return pubsub;
}

describe.each(kinds([["6.3.0", "memory"]]))("Google's generated client %s (%s)", (version, engine) => {
  it("an empty request on a stream is answered, and the stream learns what was changed", async () => {
    const { server } = await serverForTest(engine, { grpcPort: 0 });
    const pubsub = clientAt(version, server.grpcPort!);
    const [topic] = await pubsub.createTopic("t");
    const [subscription] = await topic.createSubscription("s");
    const stream = (await subscriberOf(pubsub)).streamingPull();
    onTestFinished(() => stream.cancel());
    stream.on("error", () => {});
    const properties: boolean[] = [];
    stream.on("data", ({ subscriptionProperties: told }) => {
      if (told) properties.push(told.exactlyOnceDeliveryEnabled);
    });
    stream.write({ subscription: subscription.name, streamAckDeadlineSeconds: 10 });
    await eventually(() => expect(properties).toEqual([false]));
    await subscription.setMetadata({ enableExactlyOnceDelivery: true });
    stream.write({});
    await eventually(() => expect(properties).toEqual([false, true]));
  });

  it("acknowledgements and deadlines over a stream count, and are confirmed on an exactly-once subscription", async () => {
    const { server } = await serverForTest(engine, { grpcPort: 0 });
    const pubsub = clientAt(version, server.grpcPort!);
    const [topic] = await pubsub.createTopic("t");
    const [subscription] = await topic.createSubscription("s", { enableExactlyOnceDelivery: true });
    const stream = (await subscriberOf(pubsub)).streamingPull();
    onTestFinished(() => stream.cancel());
    stream.on("error", () => {});
    const ids: string[] = [];
    const told: object[] = [];
    stream.on("data", ({ receivedMessages, acknowledgeConfirmation, modifyAckDeadlineConfirmation }) => {
      ids.push(...receivedMessages.map(({ ackId }: { ackId: string }) => ackId));
      if (acknowledgeConfirmation) told.push(acknowledgeConfirmation);
      if (modifyAckDeadlineConfirmation) told.push(modifyAckDeadlineConfirmation);
    });
    stream.write({ subscription: subscription.name, streamAckDeadlineSeconds: 10 });
    await publish(pubsub, "t", "a");
    await eventually(() => expect(ids).toHaveLength(1));
    stream.write({ modifyDeadlineAckIds: [ids[0]!], modifyDeadlineSeconds: [0] });
    await eventually(() => expect(ids).toHaveLength(2));
    stream.write({ ackIds: [ids[0]!, ids[1]!] });
    await eventually(() => expect(told).toHaveLength(2));
    expect(told[0]).toMatchObject({ ackIds: [ids[0]], invalidAckIds: [] });
    expect(told[1]).toMatchObject({ ackIds: [ids[1]], invalidAckIds: [ids[0]] });
  });

  it("a stream gets no more than its limit of unanswered messages", async () => {
    const { server } = await serverForTest(engine, { grpcPort: 0 });
    const pubsub = clientAt(version, server.grpcPort!);
    const [topic] = await pubsub.createTopic("t");
    const [subscription] = await topic.createSubscription("s");
    await publish(pubsub, "t", "a", "b", "c");
    const client = await subscriberOf(pubsub);
    const stream = client.streamingPull();
    onTestFinished(() => stream.cancel());
    stream.on("error", () => {});
    const ids: string[] = [];
    stream.on("data", ({ receivedMessages }) => {
      ids.push(...receivedMessages.map(({ ackId }: { ackId: string }) => ackId));
    });
    stream.write({ subscription: subscription.name, streamAckDeadlineSeconds: 10, maxOutstandingMessages: 2 });
    await eventually(() => expect(ids).toHaveLength(2));
    const [pulled] = await client.pull({ subscription: subscription.name, maxMessages: 10, returnImmediately: true });
    expect(pulled.receivedMessages!.map(({ message }) => String(message!.data))).toEqual(["c"]);
  });

  it("a client that does not read is leased no more, and others get the messages", async () => {
    const { server } = await serverForTest(engine, { grpcPort: 0 });
    const pubsub = clientAt(version, server.grpcPort!);
    const [topic] = await pubsub.createTopic("t");
    const [subscription] = await topic.createSubscription("s");
    const COUNT = 100;
    const data = Buffer.alloc(200_000, "x");
    await Promise.all(Array.from({ length: COUNT }, () => topic.publishMessage({ data })));
    const client = await subscriberOf(pubsub);
    const stream = client.streamingPull();
    onTestFinished(() => stream.cancel());
    stream.on("error", () => {});
    stream.pause();
    stream.write({ subscription: subscription.name, streamAckDeadlineSeconds: 600 });
    const outstanding = async () => Number(/^sluice_pull_outstanding (\d+)$/m.exec(await server.metrics())?.[1]);
    // Until it gets no more.
    for (let same = 0, last = 0; same < 30; ) {
      await sleep(10);
      const now = await outstanding();
      same = now > 0 && now === last ? same + 1 : 0;
      last = now;
    }
    const pulled: string[] = [];
    const seen = new Set<string>();
    await eventually(async () => {
      const asked = { subscription: subscription.name, maxMessages: 100, returnImmediately: true };
      const [{ receivedMessages }] = await client.pull(asked);
      pulled.push(...receivedMessages!.map(({ message }) => message!.messageId!));
      expect(await outstanding()).toBe(COUNT);
    }, 30_000);
    expect(pulled.length).toBeGreaterThan(0);
    stream.on("data", ({ receivedMessages }) => {
      for (const { message } of receivedMessages) seen.add(message.messageId);
    });
    stream.resume();
    await eventually(() => expect(seen.size + pulled.length).toBe(COUNT));
  });

  it("a snapshot is looked at, changed, and listed with its topic", async () => {
    const { server } = await serverForTest(engine, { grpcPort: 0 });
    const pubsub = clientAt(version, server.grpcPort!);
    const [topic] = await pubsub.createTopic("a%2Fb");
    const [subscription] = await topic.createSubscription("s");
    await subscription.createSnapshot("snap");
    const client = await subscriberOf(pubsub);
    const name = `projects/${PROJECT}/snapshots/snap`;
    const labels = { team: "a" };
    await client.updateSnapshot({ snapshot: { name, labels }, updateMask: { paths: ["labels"] } });
    expect((await client.getSnapshot({ snapshot: name }))[0]).toMatchObject({ name, topic: topic.name, labels });
    const immutable = client.updateSnapshot({ snapshot: { name }, updateMask: { paths: ["topic"] } });
    await expect(immutable).rejects.toMatchObject({ code: 3 });
    const { v1 } = google(version);
    const grpc = { port: server.grpcPort!, servicePath: "127.0.0.1", sslCreds: insecure(version) };
    const publisher = new v1.PublisherClient(grpc);
    onTestFinished(() => publisher.close());
    expect((await publisher.listTopicSnapshots({ topic: topic.name }))[0]).toEqual([name]);
  });
});
