/** Watching on Redis when notifications are lost: the poll finds every change, in few commands, whatever one master does. */
import { describe, expect, it } from "vitest";
import { BUCKETS } from "../../packages/server/src/engine/redis/keys.ts";
import { eventually } from "../support/eventually.ts";
import type { RedisServer } from "../support/redis.ts";
import { a, opened, single } from "./redis-fixture.ts";
import { put, stream } from "./suite/fixture.ts";

/** No commit is published from here on: a change is found by looking, or not at all. */
async function silence(server: RedisServer): Promise<void> {
  await server.admin((redis) => redis.call("ACL", "SETUSER", "default", "resetchannels"));
}

describe("a notification that is lost", () => {
  it("costs time, not the wake", async () => {
    const server = await single();
    const place = { urls: [server.url] };
    const [one, two] = [await opened(place, { pollMs: 200 }), await opened(place)];
    let heard = 0;
    one.watch(a, () => heard++);
    await eventually(() => expect(heard).toBeGreaterThan(0));
    await silence(server);
    const before = heard;
    expect((await two.commit(a, { rev: 0 }, [put("x", "1")])).kind).toBe("done");
    await eventually(() => expect(heard).toBeGreaterThan(before));
  });

  it("is made up for when many entities are watched, in every bucket and beyond one batch", async () => {
    const server = await single();
    const place = { urls: [server.url] };
    const [one, two] = [await opened(place, { pollMs: 200, pollBatch: 3 }), await opened(place)];
    const entities = Array.from({ length: 10 * BUCKETS }, (_, i) => stream(`s${i}`));
    await silence(server);
    const wakes = new Map<string, number>();
    for (const e of entities) one.watch(e, () => wakes.set(e.key, (wakes.get(e.key) ?? 0) + 1));
    const allWoken = (times: number) =>
      eventually(() => expect(entities.filter(({ key }) => (wakes.get(key) ?? 0) < times)).toEqual([]));
    // The first look finds that they do not exist; then they are created, changed and destroyed, by another node each time.
    await allWoken(1);
    for (const [times, effect] of [
      [2, put("x", "1")],
      [3, put("x", "2")],
      [4, { op: "destroy" }],
    ] as const) {
      await Promise.all(
        entities.map(async (e) => {
          const { rev } = await two.load(e, []);
          expect((await two.commit(e, { rev }, [effect])).kind).toBe("done");
        }),
      );
      await allWoken(times);
    }
    // What did not change wakes no watcher: as many wakes as changes, however often the poll has looked.
    expect(new Set(wakes.values())).toEqual(new Set([4]));
  });
});

describe("watching many entities", () => {
  it("costs Redis one command per bucket and poll, not one per entity", async () => {
    const server = await single();
    const pollMs = 300;
    const engine = await opened({ urls: [server.url] }, { pollMs });
    for (let i = 0; i < 100 * BUCKETS; i++) engine.watch(stream(`s${i}`), () => {});
    const subscribed = () => server.admin((redis) => redis.call("PUBSUB", "SHARDCHANNELS")) as Promise<unknown[]>;
    await eventually(async () => expect((await subscribed()).length).toBeGreaterThan(100 * BUCKETS));
    await server.admin((redis) => redis.call("CONFIG", "RESETSTAT"));
    const startedMs = Date.now();
    const callsOf = async (name: string) => {
      const stats = await server.admin((redis) => redis.info("commandstats"));
      return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    };
    await eventually(async () => expect(await callsOf("mget")).toBeGreaterThanOrEqual(3 * BUCKETS));
    const polls = Math.ceil((Date.now() - startedMs) / pollMs) + 1;
    expect(await callsOf("mget")).toBeLessThanOrEqual(polls * BUCKETS);
    for (const name of ["get", "getrange"]) expect(await callsOf(name)).toBe(0);
  });
});
