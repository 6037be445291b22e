/** Several nodes over one Redis: what one of them remembers of a stream's subscribers must not outlive what others have changed. */
import { createServer } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { registryEntity } from "../../packages/server/src/sessions/state.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { Api, inline } from "./api.ts";
import { stage, uuid } from "./stage.ts";

async function nodes(count: number): Promise<Api[]> {
  const redis = sharedRedis();
  const servers = await Promise.all(
    Array.from({ length: count }, () => createServer({ port: 0, redis, log: false, drainMs: 2_000 })),
  );
  onTestFinished(async () => {
    for (const server of servers) await server.close();
  });
  return servers.map(({ url }) => new Api(url));
}

it("a node that knew the subscribers of a stream notices that all of them have been replaced", async () => {
  const [here, there] = (await nodes(2)) as [Api, Api];
  await here.create("s");
  const [first, second] = [uuid(), uuid()];
  await here.subscribed(first, "s");
  expect(await here.published("s", "1")).toEqual(inline(1));
  // The registry goes with its last subscriber, and the next one has as many changes behind it.
  await there.delete(first);
  await there.subscribed(second, "s");
  expect(await here.published("s", "2")).toEqual(inline(1));
  expect(await there.messages(second)).toEqual([2]);
});

it("to subscribe again brings back what a failover took from the registry alone, with what was missed", async () => {
  const { api, engine, until } = await stage("redis");
  await api.create("s");
  const session = uuid();
  await api.subscribed(session, "s");
  await api.published("s", "1");
  const registry = registryEntity("default", "s");
  const { rev } = await engine.load(registry, []);
  expect(await engine.commit(registry, { rev }, [{ op: "destroy" }])).toMatchObject({ kind: "done" });
  expect(await api.published("s", "2")).toEqual(inline(0));
  expect((await api.subscribed(session, "s")).body).toMatchObject({ isNewSession: false });
  await until(async () => expect(await api.messages(session)).toEqual([1, 2]));
  expect(await api.published("s", "3")).toEqual(inline(1));
  expect(await api.messages(session)).toEqual([1, 2, 3]);
});
