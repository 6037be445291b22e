/** The gRPC door itself: restarts, tokens, signs of life, ports and shutdown. */
import { readFileSync } from "node:fs";
import { createServer as createListener } from "node:net";
import { fileURLToPath } from "node:url";
import { createServer, mint } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { eventually, serverForTest, sleep } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import {
  google,
  insecure,
  PROJECT,
  publish,
  pubsubAt,
  receive,
  securePubsubAt,
  subscriberOf,
  type Version,
} from "./google.ts";

const NEWEST: Version = "6.3.0";

function clientAt(port: number, version: Version = NEWEST) {
  const pubsub = pubsubAt(version, port);
  onTestFinished(() => pubsub.close());
  return pubsub;
}

it.each(["6.3.0", "5.3.1"] as const)(
  "a subscriber (%s) goes on after a restart, with every message that it has not acknowledged",
  async (version) => {
    const { dir, remove } = temporaryDir();
    onTestFinished(remove);
    const options = { port: 0, data: dir, log: false as const, drainMs: 2_000 };
    const before = await createServer({ ...options, grpcPort: 0 });
    const grpcPort = before.grpcPort!;
    const pubsub = clientAt(grpcPort, version);
    const [topic] = await pubsub.createTopic("t", {});
    await topic.setMetadata({ labels: { team: "a" } });
    await topic.createSubscription("s", { ackDeadlineSeconds: 30 });
    const received = receive(pubsub, "s", (message) => {
      if (message.data.toString() === "acked") message.ack();
    });
    await publish(pubsub, "t", "acked");
    await eventually(() => expect(received.texts).toEqual(["acked"]));
    // The client sends acknowledgements later, in batches.
    await eventually(async () => expect(await before.metrics()).toContain("sluice_pull_outstanding 0"));
    await publish(pubsub, "t", "kept");
    await eventually(() => expect(received.texts).toEqual(["acked", "kept"]));
    await before.close();
    const after = await createServer({ ...options, grpcPort });
    onTestFinished(() => after.close());
    await eventually(() => expect(received.texts).toEqual(["acked", "kept", "kept"]), 30_000);
    expect((await pubsub.topic("t").getMetadata())[0].labels).toEqual({ team: "a" });
    expect(received.errors).toEqual([]);
    await received.subscription.close();
  },
);

it("a call needs a token of its project with the scope of its method", async () => {
  const secret = "s".repeat(32);
  const { server } = await serverForTest("memory", { grpcPort: 0, projects: { [PROJECT]: { secrets: [secret] } } });
  const pubsub = clientAt(server.grpcPort!);
  const withToken = async (scope: string, streams?: string[]) => {
    const token = await mint(secret, { project: PROJECT, scope, ttlSeconds: 60, streams }, Date.now());
    return { otherArgs: { headers: { authorization: `Bearer ${token}` } } };
  };
  await expect(pubsub.createTopic("t")).rejects.toMatchObject({ code: 16 });
  const writer = await withToken("write");
  await pubsub.createTopic("t", writer);
  const reader = await withToken("read");
  await expect(pubsub.createTopic("u", reader)).rejects.toMatchObject({ code: 7 });
  expect((await pubsub.topic("t").getMetadata(reader))[0].name).toBe(`projects/${PROJECT}/topics/t`);
  const confined = await withToken("read write", ["others/#"]);
  await expect(pubsub.topic("t").getMetadata(confined)).rejects.toMatchObject({ code: 7 });
  const client = await subscriberOf(pubsub);
  const stream = client.streamingPull();
  const failed = new Promise((resolve) => stream.once("error", resolve));
  stream.write({ subscription: `projects/${PROJECT}/subscriptions/s`, streamAckDeadlineSeconds: 10 });
  expect(await failed).toMatchObject({ code: 16 });
});

it("Google's client publishes and pulls over TLS", async () => {
  const [cert, key] = ["first-cert", "first-key"].map((name) =>
    fileURLToPath(new URL(`../support/tls/${name}.pem`, import.meta.url)),
  );
  const { server } = await serverForTest("memory", { grpcPort: 0, tls: { cert, key } });
  const pubsub = securePubsubAt(server.grpcPort!, readFileSync(cert!));
  onTestFinished(() => pubsub.close());
  const [topic] = await pubsub.createTopic("t");
  await topic.createSubscription("s");
  const received = receive(pubsub, "s");
  await publish(pubsub, "t", "a");
  await eventually(() => expect(received.texts).toEqual(["a"]));
  await received.subscription.close();
});

it("an empty request on a stream is answered, and the stream learns what was changed", async () => {
  const { server } = await serverForTest("memory", { grpcPort: 0 });
  const pubsub = clientAt(server.grpcPort!);
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
  const { server } = await serverForTest("memory", { grpcPort: 0 });
  const pubsub = clientAt(server.grpcPort!);
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
  const { server } = await serverForTest("memory", { grpcPort: 0 });
  const pubsub = clientAt(server.grpcPort!);
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
  const { server } = await serverForTest("memory", { grpcPort: 0 });
  const pubsub = clientAt(server.grpcPort!);
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
  const { server } = await serverForTest("memory", { grpcPort: 0 });
  const pubsub = clientAt(server.grpcPort!);
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
  const { v1 } = google(NEWEST);
  const grpc = { port: server.grpcPort!, servicePath: "127.0.0.1", sslCreds: insecure() };
  const publisher = new v1.PublisherClient(grpc);
  onTestFinished(() => publisher.close());
  expect((await publisher.listTopicSnapshots({ topic: topic.name }))[0]).toEqual([name]);
});

it("a port that was asked for must be free, and without one the server starts without gRPC if 8085 is taken", async () => {
  const blocker = createListener();
  await new Promise<void>((resolve) => {
    blocker.once("error", () => resolve());
    blocker.listen(8085, "127.0.0.1", () => resolve());
  });
  onTestFinished(() => void blocker.close());
  const lines: string[] = [];
  const warn = (_details: object, what: string) => void lines.push(what);
  const logger = { fatal: warn, error: warn, warn, info: () => {}, debug: () => {}, trace: () => {} };
  const server = await createServer({ port: 0, memory: true, grpcPort: "auto", log: { logger: logger as never } });
  onTestFinished(() => server.close());
  expect(server.grpcPort).toBeUndefined();
  expect(lines.join()).toContain("gRPC is off: port 8085 of 127.0.0.1 is in use");
  const asked = createServer({ port: 0, memory: true, grpcPort: 8085, log: false });
  await expect(asked).rejects.toThrow("port 8085 of 127.0.0.1 is in use");
});
