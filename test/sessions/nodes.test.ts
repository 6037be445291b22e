/** Sessions of a service of two nodes: published to and subscribed through both, and caught up by the one that is left. */
import { createServer, type RunningServer } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { Streams } from "../../packages/server/src/streams/service.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENCE, sharedRedis } from "../support/shared-redis.ts";
import { serveInProcess } from "../support/sluice-process.ts";
import { Api } from "./api.ts";
import { SessionLoad } from "./load.ts";
import { uuid } from "./stage.ts";

/** So that a node finds soon what another has left behind. */
const FANOUT = { checkMs: 300, retryMs: 50, maxRetryMs: 500 };
/** Messages that a part of the load waits for. */
const SOME = process.env.SLUICE_DEEP === "1" ? 40 : 20;

async function node(redis: ReturnType<typeof sharedRedis>): Promise<RunningServer> {
  const server = await createServer({
    port: 0,
    redis,
    log: false,
    drainMs: 2_000,
    internal: { fanout: FANOUT },
    report: () => {},
  });
  onTestFinished(() => server.close());
  return server;
}

it("whoever publishes through whichever node, every inbox has it once and in the order of the source", async () => {
  const redis = sharedRedis();
  const urls = (await Promise.all([node(redis), node(redis)])).map(({ url }) => url);
  const load = new SessionLoad({ urls: () => urls, streams: ["a", "b"], publishers: 3, staying: 4, restless: 3 });
  await load.start();
  await load.progress(4 * SOME);
  await load.stop();
  await eventually(async () => expect(await load.findings()).toEqual([]), 30_000);
}, 120_000);

it("what a node had stored and not copied when it died is copied by another", async () => {
  const redis = sharedRedis();
  const { url } = await node(redis);
  const api = new Api(url);
  await api.create("s", "text/plain");
  const sessions = [uuid(), uuid()];
  for (const session of sessions) await api.subscribed(session, "s");
  // A node that gets no further than the source.
  const world = realWorld();
  const { urls, prefix } = redis;
  const engine = await openRedis({ urls, prefix, world, limits: PATIENCE });
  onTestFinished(() => engine.close());
  const streams = new Streams(engine, new Keepers(engine, (task) => world.soon(task)), world);
  const payloads = [new TextEncoder().encode("left behind")];
  const append = { contentType: "text/plain", payloads, close: false, producer: undefined, seq: undefined };
  expect(await streams.append("default", "s", append)).toMatchObject({ kind: "appended" });
  for (const session of sessions) {
    await eventually(async () => expect((await api.inbox(session)).text).toBe("left behind"), 20_000);
  }
});

it("a node that is killed under load takes nothing with it, and nothing comes twice", async () => {
  const redis = sharedRedis();
  const flags = Object.entries(FANOUT).flatMap(([name, ms]) => ["--set", `internal.fanout.${name}=${ms}`]);
  const settings = ["commandMs", "deadlineMs", "prefix"] as const;
  const shared = settings.flatMap((name) => ["--set", `redis.${name}=${redis[name]}`]);
  const { url: stays } = await node(redis);
  const killed = await serveInProcess(["--redis", redis.urls.join(","), ...shared, ...flags]);
  let urls = [stays, killed.url];
  const load = new SessionLoad({ urls: () => urls, streams: ["a", "b"], publishers: 2, staying: 3, restless: 3 });
  await load.start();
  await load.progress(2 * SOME);
  killed.child.kill("SIGKILL");
  await killed.ended;
  urls = [stays];
  await load.progress(SOME);
  await load.stop();
  await eventually(async () => expect(await load.findings()).toEqual([]), 30_000);
}, 120_000);
