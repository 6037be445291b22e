/** The life of a channel: activity, cleanup, rate and size limits, trimming, and tracking that comes with the publish. */
import { Redis } from "ioredis";
import { describe, expect, inject, it, onTestFinished } from "vitest";
import { describeAloneAndShared, sleep } from "../e2e/server.ts";
import { eventually } from "../support/eventually.ts";
import { Reader, readAll } from "./reader.ts";
import { type Answer, START, stage } from "./stage.ts";

const OFTEN = { channel: { rate: 1_000_000 } };
const TTL_MS = 120_000;
const IDLE_MS = 120_000;
const KIB_16 = 16 * 1024;

/** A DELTA whose body has exactly so many bytes. */
function deltaOf(bytes: number, sequence = 1): string {
  const frame = JSON.stringify({ phase: "DELTA", sequence, payload: "" });
  return JSON.stringify({ phase: "DELTA", sequence, payload: "x".repeat(bytes - frame.length) });
}

function expectRefusal({ status, body, headers }: Answer, wanted: number, code: string): void {
  expect(body).toMatchObject({ status: wanted, code });
  expect(status).toBe(wanted);
  expect(headers.get("content-type")).toBe("application/problem+json");
  if (wanted === 429 || wanted === 503) expect(Number(headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
}

describeAloneAndShared("Life and cleanup of a channel", (engine) => {
  it("each publish updates the activity timestamp, so a channel that is published to is not cleaned up", async () => {
    const { channel, pass, sweep } = await stage(engine);
    const a = channel("a");
    await a.takes(START);
    for (let sequence = 1; sequence <= 6; sequence++) {
      pass(IDLE_MS - 1);
      await sweep();
      expect((await a.send("DELTA", sequence)).status).toBe(202);
    }
    expect((await readAll(a.events, 6)).sequences).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  it("an abandoned channel is cleaned up at the next interval after the threshold", async () => {
    const { channel, pass, sweep, tracked, app } = await stage(engine);
    const a = channel("a");
    await a.takes(START);
    pass(60_000);
    await a.deltas(1, 1);
    // Idle from 60 s on, so the threshold is passed at 180 s; the channel is looked at every 120 s.
    pass(119_000);
    await sweep();
    pass(60_000);
    await sweep();
    expect((await readAll(a.events, 1)).sequences).toEqual([0, 1]);
    pass(1_000);
    await sweep();
    expect((await fetch(a.events)).status).toBe(404);
    expect(await tracked()).toEqual([]);
    expect(app.channels.counters.abandoned).toBe(1);
  });

  it("the cleanup interval and the idle threshold are settings", async () => {
    const { channel, pass, sweep } = await stage(engine, {
      channel: { idleMs: 5_000 },
      internal: { channel: { cleanupMs: 1_000 } },
    });
    const a = channel("a");
    await a.takes(START);
    pass(4_999);
    await sweep();
    expect((await readAll(a.events, 0)).status).toBe(200);
    pass(1);
    await sweep();
    expect((await fetch(a.events)).status).toBe(404);
  });

  it("a channel that reached END expires after its TTL, whether or not a sweep came by", async () => {
    const { channel, pass } = await stage(engine);
    const a = channel("a");
    await a.takes(START, { phase: "END", sequence: 1 });
    pass(TTL_MS - 1);
    expect((await readAll(a.events)).sequences).toEqual([0, 1]);
    pass(1);
    expect((await fetch(a.events)).status).toBe(404);
    expectRefusal(await a.send("DELTA", 2), 409, "channel-not-started");
    // The id is free again, and nothing of the old channel shows.
    await a.takes({ phase: "START", sequence: 10, messageId: "again" });
    expect((await readAll(a.events, 10)).sequences).toEqual([10]);
  });

  it("an expired channel is removed together with its entry in the index", async () => {
    const { channel, pass, sweep, tracked, app, engine: store } = await stage(engine);
    await channel("a").takes(START, { phase: "END", sequence: 1 });
    expect((await tracked()).map(({ id }) => id)).toEqual(["a"]);
    pass(TTL_MS);
    await sweep();
    expect(await tracked()).toEqual([]);
    expect((await store.list("default", "channel", "", "", 10)).ids).toEqual([]);
    expect(app.channels.counters).toMatchObject({ ended: 1, abandoned: 0, ghosts: 0 });
  });

  it("when an END cannot be stored, the cleanup removes the channel once it is idle", async () => {
    const { channel, trouble, pass, sweep, tracked } = await stage(engine);
    const a = channel("a");
    await a.takes(START);
    trouble.commit = "refused";
    expectRefusal(await a.send("END", 1), 503, "unavailable");
    trouble.commit = undefined;
    // It has not ended: END and its expiry come together or not at all.
    expect((await readAll(a.events, 0)).sequences).toEqual([0]);
    expect((await tracked()).map(({ id }) => id)).toEqual(["a"]);
    pass(IDLE_MS);
    await sweep();
    expect((await fetch(a.events)).status).toBe(404);
    expect(await tracked()).toEqual([]);
  });

  it("an ERROR does not end the channel", async () => {
    const { channel, pass } = await stage(engine);
    const a = channel("a");
    await a.takes(START, { phase: "ERROR", sequence: 1, payload: "slow" }, { phase: "ERROR", sequence: 2 });
    pass(TTL_MS + 1);
    await a.deltas(3, 3);
    await a.takes({ phase: "END", sequence: 4 });
    const { messages, ended } = await readAll(a.events);
    expect(messages.map(({ data }) => data.phase)).toEqual(["START", "ERROR", "ERROR", "DELTA", "END"]);
    expect(ended).toBe("end");
  });

  it("the cleanup scans every shard of the index", async () => {
    const { channel, pass, sweep, tracked, engine: store } = await stage(engine, OFTEN);
    const ids = Array.from({ length: 200 }, (_, i) => `c${i}`);
    await Promise.all(ids.map((id) => channel(id).takes(START)));
    expect((await tracked()).length).toBe(200);
    if (engine === "redis") expect(store.shards).toBe(64);
    pass(IDLE_MS);
    await sweep();
    expect(await tracked()).toEqual([]);
    expect((await store.list("default", "channel", "", "", 10)).ids).toEqual([]);
  });

  it("an entry of the index whose channel is gone is removed, and nothing is left of it", async () => {
    const { app, engine: store, tracked } = await stage(engine);
    // What a sweep does when the index names what is not there.
    expect(await app.channels.sweep("default", "never")).toBe("ghost");
    expect(await tracked()).toEqual([]);
    expect((await store.list("default", "channel", "", "", 10)).ids).toEqual([]);
    expect(await store.projects("channel")).toEqual([]);
  });
});

describeAloneAndShared("Rate limiting", (engine) => {
  it("a channel takes 20 requests per second, and Retry-After tells when to come back", async () => {
    const { channel, pass, app } = await stage(engine);
    const a = channel("a");
    // On Redis the window is a real second; together, they are quick enough to lie in one or two of them.
    const answers = await Promise.all([START, ...Array(49).fill(START)].map((message) => a.sendAll([message])));
    const taken = answers.filter(({ status }) => status === 202).length;
    expect(taken).toBeGreaterThanOrEqual(20);
    expect(taken).toBeLessThanOrEqual(engine === "redis" ? 40 : 20);
    for (const answer of answers) if (answer.status !== 202) expectRefusal(answer, 429, "rate-limited");
    expect(answers.find(({ status }) => status === 429)!.headers.get("retry-after")).toBe("1");
    expect(app.channels.counters.limited).toBe(50 - taken);
    // Another channel has a window of its own.
    expect((await channel("b").sendAll([START])).status).toBe(202);
    if (engine === "redis") await sleep(1_001);
    else pass(1_000);
    expect((await a.send("DELTA", 1)).status).toBe(202);
  });

  it("the rate limit comes before tracking and publishing, so a limited publish causes no other work", async () => {
    const { channel, trouble } = await stage(engine, { channel: { rate: 1, windowMs: 60_000 } });
    const a = channel("a");
    await a.takes(START);
    trouble.taken();
    expectRefusal(await a.send("DELTA", 1), 429, "rate-limited");
    expectRefusal(await a.post("not even JSON"), 429, "rate-limited");
    expect(trouble.taken()).toEqual(["hit", "hit"]);
  });

  it("the rate limit fails closed: when the limiter cannot answer, nothing is published", async () => {
    const { channel, trouble, app, tracked } = await stage(engine);
    const a = channel("a");
    for (const fault of ["refused", "lost"] as const) {
      trouble.hit = fault;
      expectRefusal(await a.sendAll([START]), 503, "limiter-unavailable");
    }
    expect(trouble.taken()).toEqual(["hit", "hit"]);
    expect(app.channels.counters.limiterFailed).toBe(2);
    expect(await tracked()).toEqual([]);
    trouble.hit = undefined;
    await a.takes(START);
  });

  it("the rate limit counts a request once, however many messages it carries", async () => {
    const { channel } = await stage(engine, { channel: { rate: 3, windowMs: 60_000 } });
    const a = channel("a");
    await a.takes(START);
    await a.deltas(1, 100);
    await a.deltas(101, 200);
    expectRefusal(await a.send("DELTA", 201), 429, "rate-limited");
    expect((await readAll(a.events, 200)).sequences).toEqual(Array.from({ length: 201 }, (_, i) => i));
  });
});

describe("Message size", () => {
  it("publishes are limited to 16 KB; one byte more is 413, and says the limit", async () => {
    const { channel, app } = await stage("memory");
    const a = channel("a");
    await a.takes(START);
    expect((await a.post(deltaOf(KIB_16))).status).toBe(202);
    const answer = await a.post(deltaOf(KIB_16 + 1, 2));
    expectRefusal(answer, 413, "too-large");
    expect(answer.body.detail).toContain("16384");
    expect(app.channels.counters.tooLarge).toBe(1);
    expect((await readAll(a.events, 1)).sequences).toEqual([0, 1]);
  });

  it("the size is checked first: a publish that is too large counts against no rate limit and causes no work", async () => {
    const { channel, trouble } = await stage("memory", { channel: { rate: 1, windowMs: 60_000 } });
    trouble.hit = "refused";
    for (let i = 0; i < 3; i++) expectRefusal(await channel("a").post(deltaOf(KIB_16 + 1)), 413, "too-large");
    expect(trouble.taken()).toEqual([]);
    trouble.hit = undefined;
    await channel("a").takes(START);
  });

  it("large data is chunked into several DELTAs, and a reader puts it together", async () => {
    const { channel } = await stage("memory", OFTEN);
    const text = Array.from({ length: 5_000 }, (_, i) => `${i} `).join("");
    const a = channel("a");
    await a.takes(START);
    let sequence = 1;
    for (let at = 0; at < text.length; at += 8_000) {
      expect((await a.send("DELTA", sequence++, text.slice(at, at + 8_000))).status).toBe(202);
    }
    await a.takes({ phase: "END", sequence });
    const { messages } = await readAll(a.events);
    expect(messages.map(({ data }) => data.payload ?? "").join("")).toBe(text);
  });
});

describeAloneAndShared("Stream length", (engine) => {
  it("a channel is trimmed to about 1,200 messages, older ones first", async () => {
    const { channel } = await stage(engine, OFTEN);
    const a = channel("a");
    await a.takes(START);
    for (let from = 1; from < 3_000; from += 100) await a.deltas(from, from + 99);
    const { sequences, gaps, seen } = await readAll(a.events, 3_000);
    expect(sequences.length).toBeGreaterThanOrEqual(1_200);
    expect(sequences.length).toBeLessThanOrEqual(1_320);
    expect(sequences).toEqual(Array.from({ length: sequences.length }, (_, i) => 3_001 - sequences.length + i));
    // A late reader is told first that the beginning is gone.
    expect(gaps).toEqual([seen[0]]);
  });

  it("at 20 messages per second a reader has about 60 seconds to come back without a loss", async () => {
    const { channel } = await stage(engine, OFTEN);
    const a = channel("a");
    await a.takes(START);
    await a.deltas(1, 5);
    const before = await readAll(a.events, 5);
    for (let from = 6; from < 1_206; from += 100) await a.deltas(from, from + 99);
    const after = await readAll(a.events, 1_205, { "Last-Event-ID": before.lastId });
    expect(after.gaps).toEqual([]);
    expect(after.sequences).toEqual(Array.from({ length: 1_200 }, (_, i) => 6 + i));
  });
});

describeAloneAndShared("Track before publish", (engine) => {
  it("a publish is tracked before it is appended, in the same commit", async () => {
    const { channel, trouble } = await stage(engine);
    await channel("a").takes(START);
    const ops = trouble.committed.map(({ effects }) => effects.map(({ op }) => op)).filter((ops) => ops.length > 0);
    expect(ops).toEqual([["begin", "remind", "put", "append"]]);
  });

  it("if tracking fails, the publish is aborted, and the publisher's retry goes through", async () => {
    const { channel, trouble, tracked } = await stage(engine);
    const a = channel("a");
    trouble.commit = "refused";
    expectRefusal(await a.sendAll([START]), 503, "unavailable");
    expect(await tracked()).toEqual([]);
    trouble.commit = undefined;
    expect((await fetch(a.events)).status).toBe(404);
    await a.takes(START);
    expect((await tracked()).length).toBe(1);
    trouble.commit = "refused";
    expectRefusal(await a.send("DELTA", 1), 503, "unavailable");
    trouble.commit = undefined;
    expect((await readAll(a.events, 0)).sequences).toEqual([0]);
    expect((await a.send("DELTA", 1)).status).toBe(202);
    expect((await readAll(a.events, 1)).sequences).toEqual([0, 1]);
  });

  it("when the reply to a publish is lost, the retry appends nothing twice", async () => {
    const { channel, trouble } = await stage(engine);
    const a = channel("a");
    trouble.commit = "lost";
    expectRefusal(await a.sendAll([START]), 503, "unavailable");
    trouble.commit = undefined;
    const offset = await a.takes(START);
    trouble.commit = "lost";
    expectRefusal(await a.send("DELTA", 1, "x", "m1"), 503, "unavailable");
    trouble.commit = undefined;
    expect(await a.takes({ phase: "DELTA", sequence: 1, payload: "x", messageId: "m1" })).not.toBe(offset);
    const reader = await readAll(a.events, 1);
    expect(reader.sequences).toEqual([0, 1]);
    expect(reader.seen[0]!.id).toBe(offset);
  });

  it("a failed publish near the idle threshold is repeated in time, and the channel is not removed too early", async () => {
    const { channel, trouble, pass, sweep } = await stage(engine);
    const a = channel("a");
    await a.takes(START);
    pass(IDLE_MS - 100);
    trouble.commit = "refused";
    expectRefusal(await a.send("DELTA", 1), 503, "unavailable");
    trouble.commit = undefined;
    await a.deltas(1, 1);
    pass(IDLE_MS - 1);
    await sweep();
    expect((await readAll(a.events, 1)).sequences).toEqual([0, 1]);
  });

  it("a sweep that fails leaves the channel tracked, and the next sweep removes it", async () => {
    const { channel, trouble, pass, sweep, tracked, reports } = await stage(engine);
    await channel("a").takes(START);
    pass(IDLE_MS);
    trouble.commit = "refused";
    await sweep();
    expect(reports.splice(0)).toEqual([expect.stringContaining("sweeping default/channel/a")]);
    trouble.commit = undefined;
    expect((await tracked()).length).toBe(1);
    await sweep();
    expect(await tracked()).toEqual([]);
  });

  it("when the log cannot be read, a reader is ended and comes back to where it was", async () => {
    const { channel, trouble } = await stage(engine);
    const a = channel("a");
    await a.takes(START);
    const reader = await Reader.open(a.events);
    await reader.untilSequence(0);
    trouble.read = "refused";
    await a.deltas(1, 1);
    await reader.untilEnded();
    trouble.read = undefined;
    expect((await readAll(a.events, 1, { "Last-Event-ID": reader.lastId })).sequences).toEqual([1]);
  });
});

/** Every key under the prefix, on every master. */
async function keysOf(prefix: string): Promise<{ key: string; ttlMs: number; redis: Redis }[]> {
  const found: { key: string; ttlMs: number; redis: Redis }[] = [];
  for (const url of inject("redisUrls")) {
    const redis = new Redis(url, { maxRetriesPerRequest: 3 });
    onTestFinished(() => void redis.disconnect());
    if (!/role:master/.test(await redis.info("replication"))) continue;
    for (const key of await redis.keys(`${prefix}:*`)) found.push({ key, ttlMs: await redis.pttl(key), redis });
  }
  return found;
}

it("on Redis, tracking lies in the shards of the entities, 64 in all, in the slot of the channel", async () => {
  const { channel, prefix } = await stage("redis", OFTEN);
  await Promise.all(Array.from({ length: 300 }, (_, i) => channel(`c${i}`).takes(START)));
  const due = (await keysOf(prefix)).map(({ key }) => key).filter((key) => key.endsWith(":due"));
  expect(due.length).toBe(64);
});

it("on Redis, an entry in the index without its channel goes with the next sweep", async () => {
  const { channel, prefix, sweep, app } = await stage("redis");
  await channel("a").takes(START);
  const { key, redis } = (await keysOf(prefix)).find((one) => one.key.endsWith(":due"))!;
  const bucket = key.slice(0, -"due".length);
  await redis.zadd(key, 1, "default/channel/a");
  // Its head, log and rows go, as a botched repair would leave it.
  for (const one of await redis.keys(`${bucket}default/channel/a:*`)) await redis.del(one);
  await sweep();
  expect(app.channels.counters.ghosts).toBe(1);
  expect(await redis.zcard(key)).toBe(0);
});

it("on Redis, a rate limit never lies there without an expiry, not even one that a crash left so", async () => {
  const { channel, prefix } = await stage("redis", { channel: { rate: 5, windowMs: 60_000 } });
  await Promise.all(Array.from({ length: 100 }, (_, i) => channel(`c${i % 10}`).sendAll([START])));
  const limits = (await keysOf(prefix)).filter(({ key }) => key.includes(":hit:"));
  expect(limits.length).toBe(10);
  expect(limits[0]!.key).toMatch(/:hit:rate_limit:channel:default:c\d$/);
  for (const { key, ttlMs } of limits) expect(ttlMs, key).toBeGreaterThan(0);
  const { key, redis } = limits.find((one) => one.key.endsWith(":c0"))!;
  expectRefusal(await channel("c0").send("DELTA", 1), 429, "rate-limited");
  await redis.persist(key);
  await eventually(async () => expect((await channel("c0").send("DELTA", 1)).status).toBe(202));
  expect(await redis.pttl(key)).toBeGreaterThan(0);
});
