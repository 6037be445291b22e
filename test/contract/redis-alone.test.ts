/** What is true of the engine on Redis alone: several nodes over one store, hints that get lost, and what is left behind. */
import { ZERO } from "@sluice/protocol";
import { afterEach, describe, expect, it } from "vitest";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import type { RedisLimits } from "../../packages/server/src/engine/redis/options.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { eventually } from "../support/eventually.ts";
import { type RedisServer, startSingleRedis } from "../support/redis.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { append, bytes, put, stream, text } from "./suite/fixture.ts";

const a = stream("a");
const open: Engine[] = [];
const servers: { close(): Promise<void> }[] = [];

async function opened(place: { urls: readonly string[]; prefix?: string }, limits: Partial<RedisLimits> = {}) {
  const engine = await openRedis({ ...place, world: realWorld(), limits });
  open.push(engine);
  return engine;
}

async function single(): Promise<RedisServer> {
  const started = await startSingleRedis();
  servers.push(started);
  return started.server;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((engine) => engine.close()));
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

/** One commit by one node, however often it meets another's; how often that was. */
async function counted(engine: Engine): Promise<number> {
  let { rev } = await engine.load(a, []);
  for (let losses = 0; ; losses++) {
    const result = await engine.commit(a, { rev }, [put("x", "1")]);
    if (result.kind === "done") return losses;
    if (result.kind === "conflict") ({ rev } = result.snapshot);
  }
}

describe("two nodes", () => {
  it("that write one entity as fast as they can both make progress, and neither is refused", async () => {
    const place = sharedRedis();
    const engines = [await opened(place), await opened(place)];
    const { nextGeneration: generation } = await engines[0]!.load(a, []);
    await engines[0]!.commit(a, { rev: 0 }, [{ op: "begin", generation, at: { generation, seq: 0 } }]);
    const endMs = Date.now() + 2_000;
    const counts = await Promise.all(
      engines.map(async (engine, n) => {
        const keepers = new Keepers(engine, (task) => void setImmediate(task));
        let count = 0;
        const write = async () => {
          while (Date.now() < endMs) {
            const messages = [{ payload: bytes(`${n}`), at: 1 }];
            await keepers.submit(a, [], () => ({ outcome: undefined, changes: [{ op: "append", messages }] }));
            count++;
          }
        };
        await Promise.all(Array.from({ length: 32 }, write));
        return count;
      }),
    );
    const page = await engines[0]!.load(a, []);
    expect(page.head.last.seq).toBe(counts[0]! + counts[1]!);
    // Half each would be fair; a tenth shows that nobody starves.
    expect(Math.min(...counts)).toBeGreaterThan(Math.max(...counts) / 10);
  });

  it("of which one is further away still get their turns", async () => {
    const server = await single();
    const proxy = await TcpProxy.open(0, server.port, 5);
    servers.push(proxy);
    const [near, far] = [
      await opened({ urls: [server.url] }),
      await opened({ urls: [`redis://127.0.0.1:${proxy.port}`] }),
    ];
    let isOver = false;
    const flood = (async () => {
      while (!isOver) await counted(near);
    })();
    let longest = 0;
    for (let i = 0; i < 20; i++) longest = Math.max(longest, await counted(far));
    isOver = true;
    await flood;
    // Without turns it loses more than a hundred times in a row, and gives up.
    expect(longest).toBeLessThan(30);
  });

  it("hear of each other's commits", async () => {
    const place = sharedRedis();
    const [one, two] = [await opened(place), await opened(place)];
    let heard = 0;
    const unwatch = one.watch(a, () => heard++);
    await eventually(() => expect(heard).toBeGreaterThan(0));
    const before = heard;
    await two.commit(a, { rev: 0 }, [put("x", "1")]);
    await eventually(() => expect(heard).toBeGreaterThan(before));
    unwatch();
  });

  it("with different prefixes know nothing of each other", async () => {
    const [one, two] = [await opened(sharedRedis()), await opened(sharedRedis())];
    await one.commit(a, { rev: 0 }, [put("x", "1")]);
    expect((await two.load(a, [])).rev).toBe(0);
    expect((await two.list("p", "stream", "", "", 10)).ids).toEqual([]);
  });
});

describe("a notification that is lost", () => {
  it("costs time, not the wake", async () => {
    const server = await single();
    const place = { urls: [server.url] };
    const [one, two] = [await opened(place, { pollMs: 200 }), await opened(place)];
    let heard = 0;
    one.watch(a, () => heard++);
    await eventually(() => expect(heard).toBeGreaterThan(0));
    // Nobody may publish from here on: the commit is seen by looking, or not at all.
    await server.admin((redis) => redis.call("ACL", "SETUSER", "default", "resetchannels"));
    const before = heard;
    expect((await two.commit(a, { rev: 0 }, [put("x", "1")])).kind).toBe("done");
    await eventually(() => expect(heard).toBeGreaterThan(before));
  });
});

describe("a commit that is sent again", () => {
  it("after its answer was lost is recognised, also when another node has committed on top", async () => {
    const server = await single();
    const proxy = await TcpProxy.open(0, server.port);
    servers.push(proxy);
    const one = await opened({ urls: [`redis://127.0.0.1:${proxy.port}`] }, { commandMs: 300, deadlineMs: 10_000 });
    const two = await opened({ urls: [server.url] });
    const { nextGeneration: generation } = await one.load(a, []);
    const begun = await one.commit(a, { rev: 0 }, [{ op: "begin", generation, at: { generation, seq: 0 } }]);
    if (begun.kind !== "done") throw new Error(begun.kind);
    const outcomes: string[] = [];
    for (let round = 0; round < 5; round++) {
      const { rev } = await one.load(a, []);
      proxy.swallowAnswers();
      const committing = one.commit(a, { rev }, [append(`one ${round}`)]);
      await eventually(async () => expect((await two.load(a, [])).rev).not.toBe(rev));
      if (round % 2 === 0) {
        const meanwhile = await two.load(a, []);
        await two.commit(a, { rev: meanwhile.rev }, [append(`two ${round}`)]);
      }
      proxy.heal();
      outcomes.push((await committing).kind);
    }
    const { messages } = await one.read(a, ZERO, 1 << 20);
    const lines = messages.map(({ payload }) => text(payload));
    expect(outcomes).toEqual(["done", "done", "done", "done", "done"]);
    expect(lines).toEqual(["one 0", "two 0", "one 1", "one 2", "two 2", "one 3", "one 4", "two 4"]);
  });
});

describe("what is left in Redis", () => {
  it("after everything was destroyed has an expiry, all of it", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] }, { waitReplicas: 0 });
    for (let i = 0; i < 20; i++) {
      const e = stream(`s${i}`);
      const { nextGeneration: generation } = await engine.load(e, []);
      const owner = await engine.claim(e, "node", 60_000);
      const begun = await engine.commit(e, { rev: 0 }, [
        { op: "begin", generation, at: { generation, seq: 0 } },
        append("one", "two"),
        put("x", "1"),
        { op: "remind", atMs: engine.now() + 1_000 },
      ]);
      if (begun.kind !== "done" || owner.kind !== "owner") throw new Error("not begun");
      await engine.hit(`k${i}`, 3, 60_000);
      await engine.commit(e, { rev: begun.rev }, [{ op: "destroy" }]);
      await engine.release(e, owner);
    }
    const left = await server.admin(async (redis) => {
      const keys = await redis.keys("*");
      return Promise.all(keys.map(async (key) => [key, await redis.pttl(key)] as const));
    });
    expect(left.length).toBeGreaterThan(0);
    expect(left.filter(([, ttl]) => ttl < 0)).toEqual([]);
  });
});

describe("opening", () => {
  it("says at once that nobody answers, and where it asked", async () => {
    await expect(openRedis({ urls: ["redis://127.0.0.1:1"], world: realWorld() })).rejects.toThrow(/127\.0\.0\.1:1/);
  });

  it.each(["http://127.0.0.1:1", "127.0.0.1", "nonsense"])("refuses %s as an address", async (url) => {
    await expect(openRedis({ urls: [url], world: realWorld() })).rejects.toThrow(/redis:\/\//);
  });

  it("refuses a Redis that throws data away when its memory is full", async () => {
    const server = await single();
    await server.admin(async (redis) => {
      await redis.config("SET", "maxmemory", "100mb");
      await redis.config("SET", "maxmemory-policy", "allkeys-lru");
    });
    await expect(openRedis({ urls: [server.url], world: realWorld() })).rejects.toThrow(/noeviction/);
  });

  it("passes on the password of the address, and never says it", async () => {
    const server = await single();
    await server.admin((redis) => redis.config("SET", "requirepass", "sesame"));
    await expect(openRedis({ urls: [server.url], world: realWorld() })).rejects.toThrow(/NOAUTH/);
    const wrong = openRedis({ urls: [server.url.replace("//", "//:mumble@")], world: realWorld() });
    await expect(wrong).rejects.toThrow(/WRONGPASS/);
    await expect(wrong).rejects.not.toThrow(/mumble/);
    const engine = await opened({ urls: [server.url.replace("//", "//:sesame@")] });
    expect((await engine.commit(a, { rev: 0 }, [put("x", "1")])).kind).toBe("done");
  });
});

describe("a Redis without memory for more", () => {
  it("refuses writes as storage full, and reads go on", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] });
    await engine.commit(a, { rev: 0 }, [put("x", "1")]);
    await server.admin((redis) => redis.config("SET", "maxmemory", "1"));
    const { rev } = await engine.load(a, []);
    await expect(engine.commit(a, { rev }, [put("x", "2")])).rejects.toMatchObject({ code: "storage-full" });
    expect((await engine.load(a, [{ table: "t", key: "x" }])).rows.map((row) => row && text(row))).toEqual(["1"]);
    await server.admin((redis) => redis.config("SET", "maxmemory", "0"));
    expect((await engine.commit(a, { rev }, [put("x", "2")])).kind).toBe("done");
  });
});
