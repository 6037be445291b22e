/** Google's client on two nodes that share a Redis Cluster: a subscription is served by one of them, and used through both. */
import { expect, it, onTestFinished } from "vitest";
import { eventually, serverForTest } from "../e2e/server.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { PROJECT, publish, pubsubAt, receive, subscriberOf } from "./google.ts";

it("messages are pulled and acknowledged through either node", async () => {
  const redis = sharedRedis();
  const nodes = await Promise.all([
    serverForTest("redis", { grpcPort: 0, redis }),
    serverForTest("redis", { grpcPort: 0, redis }),
  ]);
  const [a, b] = nodes.map(({ server }) => {
    const pubsub = pubsubAt("6.3.0", server.grpcPort!);
    onTestFinished(() => pubsub.close());
    return pubsub;
  });
  const [topic] = await a!.createTopic("t");
  await topic.createSubscription("s", { ackDeadlineSeconds: 600 });
  const subscription = `projects/${PROJECT}/subscriptions/s`;
  const here = receive(a!, "s", (message) => message.ack(), { flowControl: { maxMessages: 10 } });
  const there = receive(b!, "s", (message) => message.ack(), { flowControl: { maxMessages: 10 } });
  const texts = Array.from({ length: 200 }, (_, i) => String(i));
  await Promise.all([publish(a!, "t", ...texts.slice(0, 100)), publish(b!, "t", ...texts.slice(100))]);
  await eventually(() => expect(new Set([...here.texts, ...there.texts])).toEqual(new Set(texts)));
  await Promise.all([here.subscription.close(), there.subscription.close()]);
  const client = await subscriberOf(b!);
  await publish(a!, "t", "last");
  const [{ receivedMessages }] = await client.pull({ subscription, maxMessages: 10 });
  expect(receivedMessages!.map(({ message }) => String(message!.data))).toEqual(["last"]);
  const ackIds = receivedMessages!.map(({ ackId }) => ackId!);
  await (await subscriberOf(a!)).acknowledge({ subscription, ackIds });
  const [none] = await client.pull({ subscription, maxMessages: 10, returnImmediately: true });
  expect(none.receivedMessages).toEqual([]);
  expect([...here.errors, ...there.errors]).toEqual([]);
});
