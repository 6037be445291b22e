/** A topic of a cluster of two nodes: made, used and deleted through both at once. */
import { createServer } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { utf8 } from "../../packages/server/src/core/bytes.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { Streams } from "../../packages/server/src/streams/service.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENCE, sharedRedis } from "../support/shared-redis.ts";
import { Topic } from "./topic.ts";

async function twoNodes(path: string, shards: number, redis = sharedRedis()): Promise<[Topic, Topic]> {
  const node = async () => {
    const internal = { stream: { shardCheckMs: 1_000 } };
    const server = await createServer({ port: 0, redis, log: false, drainMs: 2_000, internal, report: () => {} });
    onTestFinished(() => server.close());
    return new Topic(server.url, path, shards);
  };
  return [await node(), await node()];
}

it("both nodes make the same topic, and send a key to the same shard", async () => {
  const [a, b] = await twoNodes("orders", 8);
  const made = await Promise.all([a.put(), b.put(), a.put(), b.put()]);
  expect(made.map(({ status }) => status).sort()).toEqual([200, 200, 200, 201]);
  for (let i = 0; i < 20; i++) {
    const key = { "Message-Key": `key ${i}` };
    expect(await a.add(`a${i}`, key)).toBe(await b.add(`b${i}`, key));
  }
  const messages = await b.messages();
  expect(messages.flat().length).toBe(40);
  expect(await a.messages()).toEqual(messages);
  expect((await b.close()).status).toBe(204);
  expect((await a.post("late")).status).toBe(409);
  expect((await a.delete()).status).toBe(204);
  expect((await b.head()).status).toBe(404);
});

it("a topic that two nodes make and delete at once is whole or gone in the end", async () => {
  const [a, b] = await twoNodes("orders", 4);
  const round = async (topic: Topic, i: number) => {
    const key = { "Message-Key": `key ${i}` };
    const answers = [await topic.put(), await topic.post(i, key), await topic.delete(), await topic.post(i, key)];
    for (const { status, text } of answers) expect([200, 201, 204, 404], text).toContain(status);
  };
  for (let i = 0; i < 15; i++) await Promise.all([round(a, i), round(b, i), round(a, i), round(b, i)]);
  // The last call is a delete, so that nothing may be left, not even a late write.
  await a.delete();
  await eventually(async () => {
    expect((await b.api.call("GET", "/streams")).body.streams).toEqual([]);
  }, 20_000);
}, 60_000);

/** A node whose commits to one entity wait until the test releases them. */
async function lateNode(redis: ReturnType<typeof sharedRedis>, id: string) {
  const world = realWorld();
  const engine = await openRedis({ ...redis, world, limits: PATIENCE });
  onTestFinished(() => engine.close());
  let isHeld = false;
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const commit = async (...args: Parameters<typeof engine.commit>) => {
    if (args[0].id === id) {
      isHeld = true;
      await released;
    }
    return engine.commit(...args);
  };
  const late = Object.create(engine, { commit: { value: commit } });
  const streams = new Streams(late, new Keepers(late, (task) => world.soon(task)), world);
  return { streams, release, held: () => eventually(() => expect(isHeld).toBe(true)) };
}

it("a node that is late with a shard of a deleted topic does not harm the next topic of its name", async () => {
  const redis = sharedRedis();
  const [topic] = await twoNodes("orders", 3, redis);
  const { streams, release, held } = await lateNode(redis, "orders/$shard/1");
  const config = { contentType: "application/json", shards: 3 };
  const creating = streams.create("default", "orders", { config, closed: false, payloads: [] });
  await held();
  await eventually(async () => expect((await topic.head("orders/$shard/2")).status).toBe(200));
  expect((await topic.delete()).status).toBe(204);
  await topic.create();
  for (let i = 0; i < 3; i++) await topic.add(i);
  release();
  await creating;
  expect(await topic.messages()).toEqual([[0], [1], [2]]);
});

it("a late append meets the next topic of the name, and goes to the shard of its key there", async () => {
  const redis = sharedRedis();
  const [topic] = await twoNodes("orders", 3, redis);
  await topic.create();
  const { streams, release, held } = await lateNode(redis, `orders/$shard/${0x92005a9c % 3}`);
  const append = { payloads: [utf8('"late"')], contentType: "application/json", close: false, messageKey: "order-1" };
  const appending = streams.append("default", "orders", append);
  await held();
  expect((await topic.delete()).status).toBe(204);
  const bigger = await topic.another("orders", 8).create();
  release();
  expect(await appending).toMatchObject({ kind: "appended", shard: 0x92005a9c % 8 });
  expect((await bigger.messages())[0x92005a9c % 8]).toEqual(["late"]);
});
