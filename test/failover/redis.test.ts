/**
 * A service of two nodes under load while its cluster fails, with replicas waited for. No acknowledged message is lost,
 * duplicated or out of order, no reader saw a message that is not there, and the service recovers by itself.
 */
import { createServer, type RunningServer } from "@sluice/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually, sleep } from "../support/eventually.ts";
import { NERVOUS_MS, RedisCluster, type RedisServer } from "../support/redis.ts";
import { Load } from "./load.ts";

const STREAMS = 12;
const ROUNDS = Number(process.env.SLUICE_ROUNDS ?? 1);
/** Long enough for a failover of the cluster, whose nodes wait two seconds for each other. */
const AWHILE_MS = 60_000;
const DEADLINE_MS = 4_000;
const LONG_POLL_MS = 1_000;
/** Slack for a machine that is busy with other tests. */
const SLACK_MS = 2_000;

let cluster: RedisCluster;
let nodes: RunningServer[] = [];

beforeAll(async () => {
  cluster = await RedisCluster.start({ proxied: true, nodeTimeoutMs: NERVOUS_MS });
  const redis = { urls: cluster.urls, waitReplicas: 1, deadlineMs: DEADLINE_MS };
  nodes = await Promise.all(
    [0, 1].map(() => createServer({ port: 0, log: false, redis, longPollMs: LONG_POLL_MS, report: () => {} })),
  );
});
afterAll(async () => {
  await Promise.all(nodes.map((node) => node.close()));
  await cluster?.close();
});

let loads = 0;

/** Loads the service, causes the trouble, waits for the recovery, and checks the result. */
async function survives(trouble: (load: Load) => Promise<void>): Promise<Load> {
  await cluster.settled();
  const load = new Load({ urls: nodes.map(({ url }) => url), streams: STREAMS, prefix: `load${loads++}` });
  await load.start();
  await load.progress();
  await trouble(load);
  await cluster.settled();
  await load.progress(AWHILE_MS);
  expect(await load.findings()).toEqual([]);
  // A request is refused in time, however long the trouble lasts.
  expect(load.slowestMs.request).toBeLessThan(DEADLINE_MS + SLACK_MS);
  expect(load.slowestMs.poll).toBeLessThan(DEADLINE_MS + LONG_POLL_MS + SLACK_MS);
  return load;
}

async function aMaster(): Promise<RedisServer> {
  return (await cluster.masters())[0]!;
}

async function anotherMasterFor(gone: RedisServer): Promise<void> {
  await eventually(async () => {
    const masters = (await cluster.masters()).filter((node) => node !== gone);
    expect(masters.length).toBe(3);
  }, 30_000);
}

describe.each(Array.from({ length: ROUNDS }, (_, i) => i + 1))("a service on Redis Cluster, round %i", () => {
  it("survives the kill of a master", { timeout: 120_000 }, async () => {
    await survives(async () => {
      const master = await aMaster();
      await master.kill();
      await anotherMasterFor(master);
      await master.start();
    });
  });

  it("survives a master that hangs and returns after another has taken over", { timeout: 120_000 }, async () => {
    await survives(async () => {
      const master = await aMaster();
      master.signal("SIGSTOP");
      await anotherMasterFor(master);
      await sleep(1_000);
      master.signal("SIGCONT");
    });
  });

  it("survives a master's handover to its replica", { timeout: 120_000 }, async () => {
    await survives(async (load) => {
      const replica = (await cluster.replicas())[0]!;
      await replica.admin((redis) => redis.call("CLUSTER", "FAILOVER"));
      await eventually(async () => expect(await replica.role()).toBe("master"), 30_000);
      await load.progress(AWHILE_MS);
    });
  });

  it("survives a flush of functions and scripts on every node", { timeout: 120_000 }, async () => {
    await survives(async () => {
      for (const node of await cluster.masters()) {
        await node.admin(async (redis) => {
          await redis.call("FUNCTION", "FLUSH");
          await redis.call("SCRIPT", "FLUSH");
        });
      }
    });
  });

  it("survives an unreachable master, and refuses requests in time meanwhile", {
    timeout: 120_000,
  }, async () => {
    const load = await survives(async () => {
      const master = await aMaster();
      master.cutOff();
      await sleep(6_000);
      master.heal();
    });
    expect(load.refusals.get(503)).toBeGreaterThan(0);
  });

  it("survives a kill and restart of all of Redis", { timeout: 120_000 }, async () => {
    await survives(async () => {
      await Promise.all(cluster.nodes.map((node) => node.kill()));
      await sleep(1_000);
      await Promise.all(cluster.nodes.map((node) => node.start()));
    });
  });
});
