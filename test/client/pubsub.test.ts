/** The library over a real server and a real network: large messages, order, tokens, lost connections, a restart. */
import { setImmediate } from "node:timers/promises";
import { PubSub, type PubSubOptions } from "@sluice/client/pubsub";
import { createServer, mint, type RunningServer } from "@sluice/server";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { eventually } from "../e2e/server.ts";
import { collected, texts } from "../pull/pubsub-world.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { noUnhandledRejections, numbersTo, QUICK } from "./open-client.ts";

const SECRET = "s".repeat(32);
let server: RunningServer;

beforeAll(async () => {
  const internal = { pull: { spreadMs: 1 } };
  server = await createServer({ port: 0, memory: true, log: false, projects: { p: { secrets: [SECRET] } }, internal });
  return () => server.close();
});

const tokenFor = (scope: string) => mint(SECRET, { project: "p", scope, ttlSeconds: 60 }, Date.now());

async function opened(url: string, options: Partial<PubSubOptions> = {}) {
  noUnhandledRejections();
  const token = () => tokenFor("read write");
  const pubsub = new PubSub({ url, projectId: "p", token, retries: QUICK, WebSocket, ...options });
  onTestFinished(() => pubsub.close());
  return pubsub;
}

/** A topic with a subscription, both named for the test. */
async function subscribed(pubsub: PubSub, name: string, options = {}) {
  const topic = await pubsub.createTopic(`topics/${name}`);
  const subscription = await topic.subscription(name, options).create();
  return { topic, subscription };
}

test("messages larger than a frame arrive, and those that were published without waiting arrive in their order", async () => {
  const pubsub = await opened(server.url);
  const { topic, subscription } = await subscribed(pubsub, "large", { streamingOptions: { maxStreams: 1 } });
  const sizes = [1, 300_000, 2, 2_000_000, 3];
  const ids = await Promise.all(sizes.map((bytes) => topic.publishMessage({ data: Buffer.alloc(bytes, "x") })));
  expect(ids).toEqual([...ids].sort());
  const received = collected(subscription, true);
  subscription.open();
  await eventually(() => expect(received).toHaveLength(sizes.length));
  expect(received.map(({ id, length }) => [id, length])).toEqual(ids.map((id, i) => [id, sizes[i]]));
  await subscription.close();
});

test("a message that is refused fails alone, although it shares a request with others", async () => {
  const pubsub = await opened(server.url);
  const { topic } = await subscribed(pubsub, "refused");
  const publishes = [{ data: Buffer.from("a") }, {}, { data: Buffer.from("b"), attributes: { k: "v" } }];
  const settled = await Promise.allSettled(publishes.map((message) => topic.publishMessage(message)));
  expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(settled[1]).toMatchObject({ reason: { code: 3, message: "a message needs data or an attribute" } });
});

test("a token that is refused, or may not do this, is told by its code and ends the stream", async () => {
  const reader = await opened(server.url, { token: await tokenFor("read") });
  await expect(reader.createTopic("t")).rejects.toMatchObject({ code: 7 });
  const stranger = await opened(server.url, { token: "nonsense" });
  const subscription = stranger.subscription("s");
  const errors: Error[] = [];
  subscription.on("error", (error) => errors.push(error));
  subscription.open();
  await eventually(() => expect(subscription.isOpen).toBe(false));
  expect(errors).toMatchObject([{ code: 16 }]);
});

test("a connection that is lost opens again: acknowledgements under way are confirmed, and every message comes", async () => {
  const proxy = await TcpProxy.open(0, server.port);
  onTestFinished(() => proxy.close());
  const pubsub = await opened(`http://127.0.0.1:${proxy.port}`);
  const direct = await opened(server.url);
  const { topic } = await subscribed(direct, "lost");
  const subscription = pubsub.subscription("lost", { ackDeadline: 600, flowControl: { maxMessages: 10 } });
  const errors: Error[] = [];
  subscription.on("error", (error) => errors.push(error));
  const received = collected(subscription);
  const publish = (n: number) => topic.publishMessage({ data: Buffer.from(String(n)) });
  await Promise.all(numbersTo(20).map(publish));
  subscription.open();
  await eventually(() => expect(received).toHaveLength(10));
  // The network is gone while the program acknowledges.
  proxy.cut();
  const acks = received.map((message) => message.ackWithResponse());
  // They leave in the next turn of the event loop.
  for (let turn = 0; turn < 3; turn++) await setImmediate();
  proxy.heal();
  await Promise.all(acks);
  await eventually(() => expect(received).toHaveLength(20));
  expect(errors.length).toBeGreaterThan(0);
  expect(new Set(errors.map((error) => (error as { code?: number }).code))).toEqual(new Set([14]));
  expect(new Set(texts(received)).size).toBe(20);
  await subscription.close({ mode: "nack" });
});

test("a program that does not listen to errors survives a lost connection", async () => {
  const proxy = await TcpProxy.open(0, server.port);
  onTestFinished(() => proxy.close());
  const pubsub = await opened(`http://127.0.0.1:${proxy.port}`);
  const { topic, subscription } = await subscribed(pubsub, "quiet");
  const received = collected(subscription, true);
  subscription.open();
  await topic.publishMessage({ data: Buffer.from("a") });
  await eventually(() => expect(received).toHaveLength(1));
  proxy.heal();
  await eventually(async () => expect(await topic.publishMessage({ data: Buffer.from("b") })).toBeDefined());
  await eventually(() => expect(texts(received)).toContain("b"));
  await subscription.close();
});

test("close gives up on a server that is gone, within the time of its retries", async () => {
  const proxy = await TcpProxy.open(0, server.port);
  onTestFinished(() => proxy.close());
  const retries = { minMs: 1, maxMs: 10, giveUpMs: 50 };
  const pubsub = await opened(`http://127.0.0.1:${proxy.port}`, { retries });
  const direct = await opened(server.url);
  const { topic } = await subscribed(direct, "gone");
  const subscription = pubsub.subscription("gone");
  const received = collected(subscription);
  subscription.on("error", () => {});
  subscription.open();
  await topic.publishMessage({ data: Buffer.from("a") });
  await eventually(() => expect(received).toHaveLength(1));
  await proxy.close();
  await subscription.close({ mode: "nack" });
  await expect(pubsub.getTopics()).rejects.toMatchObject({ code: 14 });
});

test("a wrong option is refused at once", () => {
  expect(() => new PubSub({ url: "nowhere", WebSocket })).toThrow(TypeError);
  expect(() => new PubSub({ url: "http://127.0.0.1", token: "", WebSocket })).toThrow(TypeError);
});
