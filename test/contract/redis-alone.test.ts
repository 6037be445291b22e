/**
 * Behaviors of the Redis engine alone: several nodes over one store, its requirements on Redis, and the keys it leaves behind.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Tally } from "../../packages/server/src/core/tally.ts";
import type { Cancel, World } from "../../packages/server/src/core/world.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { eventually } from "../support/eventually.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { a, opened, proxied, single } from "./redis-fixture.ts";
import { append, bytes, put, stream, text } from "./suite/fixture.ts";

/** One commit by one node, repeated after each conflict; returns the number of conflicts. */
async function counted(engine: Engine): Promise<number> {
  let { rev } = await engine.load(a, []);
  for (let losses = 0; ; losses++) {
    const result = await engine.commit(a, { rev }, [put("x", "1")]);
    if (result.kind === "done") return losses;
    if (result.kind === "conflict") ({ rev } = result.snapshot);
  }
}

describe("two nodes", () => {
  it("that write one entity as fast as they can both progress, and neither is refused", async () => {
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
    // Half each would be fair; a tenth shows that no node starves.
    expect(Math.min(...counts)).toBeGreaterThan(Math.max(...counts) / 10);
  });

  it("both get turns if one is further away from the master", async () => {
    const server = await single();
    const proxy = await proxied(server, 5);
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

  it("with different prefixes do not see each other's data", async () => {
    const [one, two] = [await opened(sharedRedis()), await opened(sharedRedis())];
    await one.commit(a, { rev: 0 }, [put("x", "1")]);
    expect((await two.load(a, [])).rev).toBe(0);
    expect((await two.list("p", "stream", "", "", 10)).ids).toEqual([]);
  });
});

describe("a page", () => {
  it("of one large message does not make Redis read all the other messages", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] });
    const { nextGeneration: generation } = await engine.load(a, []);
    let result = await engine.commit(a, { rev: 0 }, [{ op: "begin", generation, at: { generation, seq: 0 } }]);
    for (let i = 0; i < 40 && result.kind === "done"; i++) {
      result = await engine.commit(a, { rev: result.rev }, [append(new Uint8Array(500_000))]);
    }
    /** The least of several measurements: the cost without a disturbance. */
    const costOfPage = async (seq: number) => {
      const costs: number[] = [];
      for (let i = 0; i < 5; i++) {
        await server.admin((redis) => redis.call("CONFIG", "RESETSTAT"));
        expect((await engine.read(a, { generation, seq }, 1_000)).messages.length).toBe(1);
        const stats = await server.admin((redis) => redis.info("commandstats"));
        costs.push(Number(/cmdstat_xrange:calls=\d+,usec=(\d+)/.exec(stats)![1]));
      }
      return Math.min(...costs);
    };
    // A page from the beginning has forty entries after it, one near the end two.
    expect(await costOfPage(0)).toBeLessThan(6 * (await costOfPage(38)) + 100);
  });
});

describe("a Redis user with the documented permissions only", () => {
  it("can do everything that the guide promises", async () => {
    const server = await single();
    const guide = readFileSync(new URL("../../docs/redis.md", import.meta.url), "utf8");
    const rules = /ACL SETUSER sluice (.*)$/m.exec(guide)![1]!.split(" ");
    await server.admin((redis) => redis.call("ACL", "SETUSER", "sluice", ...rules));
    const urls = [server.url.replace("//", "//sluice:PASSWORD@")];
    const [one, two] = [await opened({ urls }), await opened({ urls })];
    let heard = 0;
    one.watch(a, () => heard++);
    await eventually(() => expect(heard).toBeGreaterThan(0));
    const written = await two.commit(a, { rev: 0 }, [put("x", "1"), { op: "remind", atMs: 1 }]);
    if (written.kind !== "done") throw new Error(written.kind);
    await eventually(() => expect(heard).toBeGreaterThan(1));
    const owner = await one.claim(a, "n", 1_000);
    if (owner.kind === "owner") await one.release(a, owner);
    expect((await one.hit("k", 1, 1_000)).kind).toBe("allowed");
    expect((await one.list("p", "stream", "", "", 10)).ids).toEqual(["a"]);
    expect(await one.rows(a, "t", "", 10)).toHaveLength(1);
    expect((await one.commit(a, { rev: written.rev }, [{ op: "destroy" }])).kind).toBe("done");
    expect(one.health()).toBeUndefined();
  });

  it("is refused at the start if it lacks a permission", async () => {
    const server = await single();
    const rules = ["on", ">PASSWORD", "~*", "&*", "+@all", "-expire"];
    await server.admin((redis) => redis.call("ACL", "SETUSER", "sluice", ...rules));
    const urls = [server.url.replace("//", "//sluice:PASSWORD@")];
    await expect(openRedis({ urls, world: realWorld() })).rejects.toThrow(/the Redis user lacks a permission/);
  });
});

describe("a warning to the operator", () => {
  it("is given at opening if there is no append-only file", async () => {
    const server = await single();
    await server.admin((redis) => redis.config("SET", "appendonly", "no"));
    const told: string[] = [];
    const engine = await openRedis({ urls: [server.url], world: realWorld(), warn: (text) => told.push(text) });
    onTestFinished(() => engine.close());
    expect(told.join()).toMatch(/append-only file/);
  });
});

function countsOf(engine: Engine): Record<string, number> {
  const found: Record<string, number> = {};
  for (const metric of engine.metrics!()) {
    metric.read((value: number | Tally) => {
      found[metric.name.replace("sluice_redis_", "")] = typeof value === "number" ? value : value.count;
    });
  }
  return found;
}

describe("the engine's metrics", () => {
  it("show a Redis that has gone away: attempts, lost connections, expired operations", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] }, { deadlineMs: 500 });
    const read = () => countsOf(engine);
    await engine.commit(a, { rev: 0 }, [put("x", "1")]);
    const before = read();
    expect(before).toMatchObject({ deadlines_total: 0, disconnects_total: 0 });
    expect(before.commit_seconds).toBeGreaterThan(0);
    await server.kill();
    await expect(engine.load(a, [])).rejects.toMatchObject({ code: "unavailable" });
    const after = read();
    for (const name of ["deadlines_total", "retries_total", "connects_total", "disconnects_total"]) {
      expect(after[name], name).toBeGreaterThan(before[name]!);
    }
  });
});

describe("every key left in Redis", () => {
  it("after all entities were destroyed has an expiry", async () => {
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

describe("a pause of this process, longer than Redis may take to answer,", () => {
  const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 900);

  it("does not keep it from starting", async () => {
    const server = await single();
    const opening = opened({ urls: [server.url] }, { connectMs: 300 });
    pause();
    await opening;
  });

  it("costs no connection and repeats no call", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] }, { commandMs: 300 });
    const { retries_total, disconnects_total } = countsOf(engine);
    const loading = engine.load(a, []);
    // The call leaves in the same turn.
    await Promise.resolve();
    pause();
    await loading;
    expect(countsOf(engine)).toMatchObject({ retries_total, disconnects_total });
  });
});

/** The real world, with a count of its active timers. */
function countingWorld(): World & { timers: number } {
  const real = realWorld();
  const world = {
    ...real,
    timers: 0,
    after(ms: number, task: () => void): Cancel {
      let isSet = true;
      const over = () => {
        if (isSet) world.timers--;
        isSet = false;
      };
      world.timers++;
      const cancel = real.after(ms, () => {
        over();
        task();
      });
      return () => {
        over();
        cancel();
      };
    },
  };
  return world;
}

describe("opening", () => {
  it("says at once that no Redis answers, and which addresses it tried", async () => {
    await expect(openRedis({ urls: ["redis://127.0.0.1:1"], world: realWorld() })).rejects.toThrow(/127\.0\.0\.1:1/);
  });

  it.each(["http://127.0.0.1:1", "127.0.0.1", "nonsense"])("refuses %s as an address", async (url) => {
    await expect(openRedis({ urls: [url], world: realWorld() })).rejects.toThrow(/redis:\/\//);
  });

  it("refuses a Redis that evicts data when its memory is full", async () => {
    const server = await single();
    await server.admin(async (redis) => {
      await redis.config("SET", "maxmemory", "100mb");
      await redis.config("SET", "maxmemory-policy", "allkeys-lru");
    });
    await expect(openRedis({ urls: [server.url], world: realWorld() })).rejects.toThrow(/noeviction/);
  });

  it("that is refused leaves no timer, no connection and no record behind", async () => {
    const server = await single();
    await server.admin(async (redis) => {
      await redis.config("SET", "maxmemory", "100mb");
      await redis.config("SET", "maxmemory-policy", "allkeys-lru");
    });
    const world = countingWorld();
    await expect(openRedis({ urls: [server.url], world })).rejects.toThrow(/noeviction/);
    await eventually(() => expect(world.timers).toBe(0));
    await eventually(async () => {
      const clients = await server.admin((redis) => redis.call("CLIENT", "LIST"));
      // The connection that asks is the only one.
      expect(String(clients).trim().split("\n")).toHaveLength(1);
    });
    expect(await server.admin((redis) => redis.keys("*"))).toEqual([]);
  });

  it("uses the password of the address, and never shows it", async () => {
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

describe("a Redis whose clock was set back by an hour", () => {
  it("keeps no key limited for longer than a window", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] });
    expect((await engine.hit("k", 1, 60_000)).kind).toBe("allowed");
    expect((await engine.hit("k", 1, 60_000)).kind).toBe("limited");
    // To Redis, a clock that was set back is a key that expires so much later.
    await server.admin(async (redis) => {
      const [window] = await redis.keys("*:hit:k");
      expect(await redis.pexpire(window!, 60_000 + 3_600_000)).toBe(1);
    });
    expect((await engine.hit("k", 1, 60_000)).kind).toBe("allowed");
    expect((await engine.hit("k", 1, 60_000)).kind).toBe("limited");
  });
});

describe("a Redis without memory for more", () => {
  it("refuses writes as storage-full, and reads continue", async () => {
    const server = await single();
    const engine = await opened({ urls: [server.url] });
    await engine.commit(a, { rev: 0 }, [put("x", "1")]);
    await server.admin((redis) => redis.config("SET", "maxmemory", "1"));
    const { rev } = await engine.load(a, []);
    await expect(engine.commit(a, { rev }, [put("x", "2")])).rejects.toMatchObject({ code: "storage-full" });
    expect((await engine.load(a, [{ table: "t", key: "x" }])).rows.map((row) => row && text(row))).toEqual(["1"]);
    expect(engine.health()?.code).toBe("storage-full");
    // Effects that free memory still commit.
    expect((await engine.commit(a, { rev }, [{ op: "destroy" }])).kind).toBe("done");
    await server.admin((redis) => redis.config("SET", "maxmemory", "0"));
    expect((await engine.commit(a, { rev: 0 }, [put("x", "2")])).kind).toBe("done");
  });
});
