/** Pull over its WebSocket, through a real server: frames, streams, scopes, restarts and kills. */
import { createServer, mint } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { describeOnMemory, describeOnStores, eventually, serverForTest } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { PullClient, textsOf } from "./pull-client.ts";

describeOnMemory("The WebSocket of pull", (engine) => {
  it("topics, subscriptions, snapshots and streams work over one connection", async () => {
    const { url, server } = await serverForTest(engine);
    const client = await PullClient.open(url);
    expect(await client.done("createTopic", { topic: "t", labels: { team: "a" } })).toMatchObject({ isNew: true });
    expect(await client.done("createTopic", { topic: "t" })).toMatchObject({ isNew: false });
    expect(await client.done("topic", { topic: "t" })).toMatchObject({ topic: { name: "t", labels: { team: "a" } } });
    await client.done("create", { subscription: "s", topic: "t", ackDeadlineMs: 20_000 });
    expect(await client.done("list")).toMatchObject({
      subscriptions: [{ name: "s", topic: "t", ackDeadlineMs: 20_000 }],
    });
    expect(await client.done("list", { topic: "t" })).toMatchObject({ names: ["s"] });
    await client.done("open", { stream: "1", subscription: "s", maxMessages: 2 });
    const { messageIds } = await client.publish("t", "a", "b", "c");
    await eventually(() => expect(client.delivered).toEqual(["a", "b"]));
    const [first] = client.frames.find(({ type }) => type === "messages")!.messages!;
    expect(first).toMatchObject({ messageId: (messageIds as string[])[0], attempt: 1 });
    expect(await client.ack("s", first!)).toEqual(["done"]);
    await eventually(() => expect(client.delivered).toEqual(["a", "b", "c"]));
    await client.done("close", { stream: "1" });
    await client.done("createSnapshot", { snapshot: "snap", subscription: "s" });
    expect(await client.done("snapshots", { topic: "t" })).toMatchObject({ names: ["snap"] });
    await client.done("seek", { subscription: "s", snapshot: "snap" });
    expect(textsOf(await client.pull("s"))).toEqual(["b", "c"]);
    expect(await server.metrics()).toContain("sluice_pull_outstanding 2");
    await client.done("deleteTopic", { topic: "t" });
    expect(await client.ask("publish", { topic: "t", messages: [{ data: "YQ==" }] })).toMatchObject({
      type: "error",
      code: "stream-not-found",
    });
  });

  it("what cannot be done is answered with an error, and the connection stays", async () => {
    const { url } = await serverForTest(engine);
    const client = await PullClient.open(url);
    client.socket.send("{nonsense");
    const code = async (type: string, frame?: object) => (await client.ask(type, frame)).code;
    expect(await code("toString")).toBe("bad-body");
    expect(await code("pull", { subscription: "none", maxMessages: 1 })).toBe("subscription-not-found");
    expect(await code("create", { subscription: "s", topic: "none" })).toBe("stream-not-found");
    expect(await code("close", { stream: "none" })).toBe("bad-body");
    expect(client.frames[0]).toMatchObject({ type: "error", code: "bad-body" });
    expect((await fetch(`${url}/v1/pull`)).status).toBe(400);
  });

  it("a frame that waits for a message holds up no other frame", async () => {
    const { url } = await serverForTest(engine);
    const client = await PullClient.open(url);
    await client.done("createTopic", { topic: "t" });
    await client.done("create", { subscription: "s", topic: "t" });
    const pulled = client.pull("s", 1, 60_000);
    await client.publish("t", "a");
    expect(textsOf(await pulled)).toEqual(["a"]);
  });

  it("a change of one limit of a stream leaves the others as they are", async () => {
    const { url } = await serverForTest(engine);
    const client = await PullClient.open(url);
    await client.done("createTopic", { topic: "t" });
    await client.done("create", { subscription: "s", topic: "t" });
    await client.done("open", { stream: "1", subscription: "s", maxMessages: 1 });
    await client.done("limits", { stream: "1", ackDeadlineMs: 20_000 });
    await client.publish("t", "a", "b");
    await eventually(() => expect(client.delivered).toEqual(["a"]));
    expect(textsOf(await client.pull("s"))).toEqual(["b"]);
  });

  it("a client may send frames that build on each other without waiting for the answers", async () => {
    const { url } = await serverForTest(engine);
    const client = await PullClient.open(url);
    const answers = [
      client.ask("createTopic", { topic: "t" }),
      client.ask("create", { subscription: "s", topic: "t" }),
      client.ask("open", { stream: "1", subscription: "s" }),
      client.publish("t", "a"),
    ];
    expect((await Promise.all(answers)).map(({ type }) => type)).toEqual(["ok", "ok", "ok", "ok"]);
    await eventually(() => expect(client.delivered).toEqual(["a"]));
  });

  it("each frame demands its own scope, and only for topics that the token may see", async () => {
    const secret = "s".repeat(32);
    const { url } = await serverForTest(engine, { projects: { p: { secrets: [secret] } } });
    const client = async (scope: string, streams?: string[]) =>
      PullClient.open(url, await mint(secret, { project: "p", scope, ttlSeconds: 60, streams }, Date.now()), "p");
    const owner = await client("write");
    await owner.done("createTopic", { topic: "mine" });
    await owner.done("create", { subscription: "s", topic: "mine" });
    const reader = await client("read");
    const code = async (one: PullClient, type: string, frame: object) => (await one.ask(type, frame)).code;
    expect(await code(reader, "publish", { topic: "mine", messages: [{ data: "YQ==" }] })).toBe("forbidden");
    expect(await code(reader, "createTopic", { topic: "other" })).toBe("forbidden");
    expect(await code(reader, "delete", { subscription: "s" })).toBe("forbidden");
    expect(await reader.pull("s")).toEqual([]);
    const confined = await client("read write", ["others/#"]);
    expect(await code(confined, "pull", { subscription: "s", maxMessages: 1 })).toBe("forbidden");
    expect(await code(confined, "open", { stream: "1", subscription: "s" })).toBe("forbidden");
    expect(await code(confined, "seek", { subscription: "s", timeMs: 0 })).toBe("forbidden");
    expect(await confined.done("list")).toMatchObject({ subscriptions: [] });
    await confined.done("createTopic", { topic: "others/t" });
    expect(await code(confined, "create", { subscription: "s", topic: "others/t" })).toBe("forbidden");
  });

  it("a server that shuts down ends its streams and says bye", async () => {
    const { url, server } = await serverForTest(engine);
    const client = await PullClient.open(url);
    await client.done("createTopic", { topic: "t" });
    await client.done("create", { subscription: "s", topic: "t" });
    await client.done("open", { stream: "1", subscription: "s" });
    await server.close();
    await eventually(() => expect(client.frames.at(-1)).toMatchObject({ type: "bye", code: "draining" }));
  });
});

describeOnStores("Pull", (engine) => {
  it("keeps acknowledgements, attempts and delays over a restart", async () => {
    const directory = temporaryDir();
    onTestFinished(directory.remove);
    const place = engine === "redis" ? { redis: sharedRedis() } : { data: directory.dir };
    const open = async () => {
      const server = await createServer({ port: 0, log: false, drainMs: 2_000, ...place });
      onTestFinished(() => server.close());
      return { server, client: await PullClient.open(server.url) };
    };
    const first = await open();
    const topic = `restart-${engine}`;
    await first.client.done("createTopic", { topic });
    await first.client.done("create", { subscription: topic, topic });
    await first.client.publish(topic, "a", "b", "c", "d");
    const [a, b, c] = await first.client.pull(topic);
    expect(await first.client.ack(topic, a!, c!)).toEqual(["done", "done"]);
    await first.client.done("nack", { subscription: topic, ackIds: [b!.ackId] });
    await first.server.close();
    const second = await open();
    const again = await second.client.pull(topic, 10, 10_000);
    expect(textsOf(again).sort()).toEqual(["b", "d"]);
    expect(again.find(({ data }) => data === Buffer.from("b").toString("base64"))).toMatchObject({ attempt: 2 });
    // An ack id of the earlier process still names its message.
    await second.client.done("seek", { subscription: topic, timeMs: 0 });
    expect(textsOf(await second.client.pull(topic, 10, 10_000)).sort()).toEqual(["a", "b", "c", "d"]);
  });
});

it("two nodes over one Redis share a subscription, whichever of them serves it", async () => {
  const redis = sharedRedis();
  const open = async () => {
    const server = await createServer({ port: 0, log: false, drainMs: 2_000, redis });
    onTestFinished(() => server.close());
    return { server, client: await PullClient.open(server.url) };
  };
  const [a, b] = [await open(), await open()];
  const topic = "two-nodes";
  await a.client.done("createTopic", { topic });
  await a.client.done("create", { subscription: topic, topic });
  for (const { client } of [a, b]) await client.done("open", { stream: "1", subscription: topic, maxMessages: 2 });
  await b.client.publish(topic, "1", "2", "3", "4", "5", "6");
  await eventually(() => {
    expect(a.client.delivered).toHaveLength(2);
    expect(b.client.delivered).toHaveLength(2);
  });
  // Each acknowledges through the other's node.
  const out = ({ client }: typeof a) =>
    client.frames.filter(({ type }) => type === "messages").flatMap(({ messages }) => messages!);
  expect(await b.client.ack(topic, ...out(a))).toEqual(["done", "done"]);
  expect(await a.client.ack(topic, ...out(b))).toEqual(["done", "done"]);
  await eventually(() => {
    expect([...a.client.delivered, ...b.client.delivered].sort()).toEqual(["1", "2", "3", "4", "5", "6"]);
  });
});
