/** Nodes over one Redis: records that outlive no node for long, subscriptions that come back, floods that cost no commit. */
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type Engine,
  MAX_TOLD_BYTES,
  NODE_ALIVE_MS,
  NODE_RENEW_MS,
} from "../../packages/server/src/engine/contract.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { eventually } from "../support/eventually.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { a, opened, overProxy, single } from "./redis-fixture.ts";
import { bytes, put, text } from "./suite/fixture.ts";

/** How far apart the clock of Redis and what a node makes of it may be. */
const ESTIMATE_MS = 200;
const PATIENT_MS = 4 * NODE_ALIVE_MS;

async function recordOf(engine: Engine, id: string) {
  return (await engine.nodes()).find((node) => node.id === id);
}

function heardBy(engine: Engine): string[] {
  const heard: string[] = [];
  engine.onTold((told) => heard.push(text(told)));
  return heard;
}

async function arrives(heard: readonly string[], from: Engine, to: Engine, said: string): Promise<void> {
  await eventually(() => {
    from.tell(to.node, bytes(said));
    expect(heard).toContain(said);
  }, PATIENT_MS);
}

describe("the record of a node", () => {
  it("ends in its time after the node was cut off, and stands again once the node is back", async () => {
    const { proxy, near, far } = await overProxy({ commandMs: 300 });
    proxy.cut();
    // Written before the cut, or on its way through it.
    let last = await recordOf(near, far.node);
    expect(last).toBeDefined();
    await eventually(async () => {
      const found = await recordOf(near, far.node);
      last = found ?? last;
      expect(found).toBeUndefined();
    }, PATIENT_MS);
    expect(near.now()).toBeGreaterThanOrEqual(last!.aliveUntilMs - ESTIMATE_MS);
    expect(await recordOf(near, near.node)).toBeDefined();
    proxy.heal();
    await eventually(async () => expect(await recordOf(near, far.node)).toBeDefined(), PATIENT_MS);
  });

  it("lasts by the clock of Redis, whatever the node's own says", async () => {
    const { url } = await single();
    const near = await opened({ urls: [url] });
    for (const offsetMs of [-3_600_000, 3_600_000]) {
      const real = realWorld();
      const world = { ...real, now: () => real.now() + offsetMs };
      const odd = await openRedis({ urls: [url], world });
      onTestFinished(() => odd.close());
      for (const seenBy of [near, odd]) {
        const { aliveUntilMs } = (await recordOf(seenBy, odd.node))!;
        expect(aliveUntilMs).toBeGreaterThan(near.now() - ESTIMATE_MS);
        expect(aliveUntilMs).toBeLessThanOrEqual(near.now() + NODE_ALIVE_MS + ESTIMATE_MS);
      }
    }
  });

  it("from a master whose clock was ahead neither counts nor stays", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] });
    const key = "sluice:{0}:nodes";
    await server.admin((redis) => redis.call("ZADD", key, Date.now() + 10 * NODE_ALIVE_MS, "ghost"));
    expect(await recordOf(engine, "ghost")).toBeUndefined();
    await eventually(async () => {
      expect(await server.admin((redis) => redis.call("ZRANGE", key, 0, -1))).toEqual([engine.node]);
    }, PATIENT_MS);
  });

  it("that has ended does not count, whether or not any node has removed it", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] });
    await server.admin((redis) => redis.call("ZADD", "sluice:{0}:nodes", Date.now() - 1, "dead"));
    expect((await engine.nodes()).map(({ id }) => id)).toEqual([engine.node]);
  });

  it("is written anew after Redis has lost everything it held", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] });
    await server.admin(async (redis) => {
      await redis.flushall();
      await redis.call("FUNCTION", "FLUSH");
    });
    await eventually(async () => expect(await recordOf(engine, engine.node)).toBeDefined(), PATIENT_MS);
  });

  it("is told to other nodes of the same prefix only", async () => {
    const [one, two] = [await opened(sharedRedis()), await opened(sharedRedis())];
    expect((await one.nodes()).map(({ id }) => id)).toEqual([one.node]);
    const heard = heardBy(two);
    one.tell(two.node, bytes("not for you"));
    await arrives(heard, two, two, "for you");
    expect(heard).not.toContain("not for you");
  });
});

describe("the subscription of a node", () => {
  it("comes back after its connection was lost", async () => {
    const { server, near, far } = await overProxy({});
    const heard = heardBy(far);
    await arrives(heard, near, far, "before");
    await server.admin((redis) => redis.call("CLIENT", "KILL", "TYPE", "pubsub"));
    await arrives(heard, near, far, "after");
  });

  it("comes back by itself after Redis refused it for a while", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] });
    const heard = heardBy(engine);
    await arrives(heard, engine, engine, "before");
    // Takes the right to all channels, and the connections that have subscribed to any.
    await server.admin((redis) => redis.call("ACL", "SETUSER", "default", "resetchannels"));
    await eventually(async () => {
      const refusals = await server.admin((redis) => redis.call("ACL", "LOG"));
      expect(JSON.stringify(refusals)).toContain(`node:${engine.node}`);
    });
    engine.tell(engine.node, bytes("refused"));
    await server.admin((redis) => redis.call("ACL", "SETUSER", "default", "allchannels"));
    await arrives(heard, engine, engine, "after");
    expect(heard).not.toContain("refused");
  });
});

describe("a flood of messages to a Redis that does not answer", () => {
  it("is dropped beyond a few megabytes, and messages and commits go on afterwards", async () => {
    const server = await single();
    const place = { urls: [server.url] };
    const patient = { commandMs: 20_000, deadlineMs: 20_000 };
    const [one, two] = [await opened(place, patient), await opened(place, patient)];
    const heard = heardBy(two);
    await arrives(heard, one, two, "before");
    server.signal("SIGSTOP");
    const flood = "x".repeat(MAX_TOLD_BYTES);
    for (let i = 0; i < 1_000; i++) one.tell(two.node, bytes(flood));
    server.signal("SIGCONT");
    // Sent over the same connection, so the flood has arrived by then.
    await arrives(heard, one, two, "after");
    const arrived = heard.filter((said) => said === flood).length;
    expect(arrived).toBeGreaterThan(0);
    expect(arrived).toBeLessThanOrEqual(64);
    expect((await one.commit(a, { rev: 0 }, [put("x", "1")])).kind).toBe("done");
  });
});

describe("a node without work", () => {
  it("costs Redis a handful of commands per renewal", async () => {
    const server = await single();
    await opened({ urls: [server.url] });
    await server.admin((redis) => redis.call("CONFIG", "RESETSTAT"));
    const callsOf = async (name: string) => {
      const stats = await server.admin((redis) => redis.info("commandstats"));
      return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    };
    const startedMs = Date.now();
    await eventually(async () => expect(await callsOf("fcall")).toBeGreaterThanOrEqual(3), PATIENT_MS);
    expect(Date.now() - startedMs).toBeGreaterThan(2 * NODE_RENEW_MS);
    expect(await callsOf("spublish")).toBeLessThanOrEqual(await callsOf("fcall"));
  });
});
