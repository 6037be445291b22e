/** Several nodes over one Redis: what one of them remembers of a stream's subscribers must not outlive what others have changed. */
import { createServer } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { registryEntity } from "../../packages/server/src/sessions/state.ts";
import { FANOUT_FOLLOWER } from "../../packages/server/src/streams/state.ts";
import { Random } from "../sim/random.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { Api, inline, PATIENT } from "./api.ts";
import { stage, uuid } from "./stage.ts";

async function nodes(count: number): Promise<Api[]> {
  const redis = sharedRedis();
  const options = { port: 0, redis, log: false, drainMs: 2_000, internal: { fanout: PATIENT } } as const;
  const servers = await Promise.all(Array.from({ length: count }, () => createServer(options)));
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

it("what comes after a subscription is kept for it, though another node has let go of everything while it was made", async () => {
  const { api, app, core, until } = await stage("redis");
  await api.create("s", "application/json", { "Stream-Max-Messages": "5" });
  const session = uuid();
  core.fate = ({ method }) => (method === "join" ? "stuck" : undefined);
  const subscribing = api.subscribe(session, "s");
  await until(() => expect(core.pending).toBe(1), 0);
  await app.streams.hold("default", "s", FANOUT_FOLLOWER, undefined);
  core.fate = ({ method }) => (method === "deliver" ? "refused" : undefined);
  core.release();
  expect((await subscribing).status).toBe(200);
  const sent = Array.from({ length: 20 }, (_, i) => i);
  for (const i of sent) await api.append("s", String(i));
  core.fate = () => undefined;
  await until(async () => expect(await api.messages(session)).toEqual(sent));
  expect((await api.session(session)).body.subscriptions[0].missed).toBeUndefined();
});

const SEEDS = process.env.SLUICE_DEEP === "1" ? [1, 2, 3] : [1];

it.each(SEEDS)(
  "whichever nodes are asked, every session gets what was published while it followed, once and in order (seed %i)",
  async (seed) => {
    const apis = await nodes(3);
    const random = new Random(seed);
    const any = () => random.pick(apis);
    const streams = ["a", "b"];
    for (const stream of streams) await any().create(stream);
    const ids = Array.from({ length: 5 }, uuid);
    const following = new Map<string, Set<string>>();
    const expected = new Map<string, number[]>();
    let copies = 0;
    for (let i = 0; i < 160; i++) {
      const [id, stream, roll] = [random.pick(ids), random.pick(streams), random.below(10)];
      if (roll < 3) {
        await any().subscribed(id, stream);
        if (!expected.has(id)) expected.set(id, []);
        following.set(id, (following.get(id) ?? new Set()).add(stream));
      } else if (roll < 4) {
        expect((await any().unsubscribe(id, stream)).status).toBe(expected.has(id) ? 204 : 404);
        following.get(id)?.delete(stream);
      } else if (roll < 5) {
        expect((await any().delete(id)).status).toBe(expected.has(id) ? 204 : 404);
        following.delete(id);
        expected.delete(id);
      } else {
        const followers = [...following].filter(([, streams]) => streams.has(stream)).map(([session]) => session);
        // Whoever left a moment ago may still be counted, by a round that was under way.
        const told = { mode: "inline", successes: followers.length, failures: 0 };
        expect(await any().published(stream, String(i))).toMatchObject(told);
        for (const session of followers) expected.get(session)!.push(i);
        copies += followers.length;
      }
    }
    expect(copies).toBeGreaterThan(50);
    for (const [id, messages] of expected) expect(await any().messages(id)).toEqual(messages);
  },
);
