/**
 * Each step of the publish path fails in turn: size, rate, load, track, append, trim, expire, untrack. A step fails with nothing done
 * (`refused`) or with its reply lost (`lost`). Each time the client is told, and its retry leaves the channel as if nothing had failed.
 */
import { connect } from "node:net";
import { expect, it } from "vitest";
import { channelEntity } from "../../packages/server/src/channels/state.ts";
import type { Effect } from "../../packages/server/src/engine/contract.ts";
import { bucketOf } from "../../packages/server/src/engine/redis/keys.ts";
import { describeAloneAndShared } from "../e2e/server.ts";
import { eventually } from "../support/eventually.ts";
import { readAll } from "./reader.ts";
import { type Answer, type Channel, type Fault, START, type Stage, stage } from "./stage.ts";

const MESSAGES = 40;
/** With a TTL of its own, an END sets another expiry than the activity before it. */
const OFTEN = { channel: { rate: 1_000_000, messages: MESSAGES, ttlMs: 90_000 } };
const TTL_MS = 120_000;

/** A step that is one effect of the commit: what must be there before, and the publish that needs the effect. */
interface EffectStep {
  readonly step: string;
  readonly effect: Effect["op"];
  prepare(a: Channel): Promise<unknown>;
  publish(a: Channel): Promise<Answer>;
  readonly before: readonly number[];
  readonly after: readonly number[];
}

const upTo = (last: number, first = 0) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
/** The first sequence whose append cuts the log: 40 messages are kept, and cuts go in steps of two. */
const CUTTING = 41;

const STEPS: readonly EffectStep[] = [
  {
    step: "tracking a new channel",
    effect: "remind",
    prepare: async () => {},
    publish: (a) => a.sendAll([START]),
    before: [],
    after: [0],
  },
  {
    step: "beginning its log",
    effect: "begin",
    prepare: async () => {},
    publish: (a) => a.sendAll([START]),
    before: [],
    after: [0],
  },
  {
    step: "appending",
    effect: "append",
    prepare: (a) => a.takes(START),
    publish: (a) => a.send("DELTA", 1),
    before: [0],
    after: [0, 1],
  },
  {
    step: "trimming",
    effect: "trim",
    prepare: (a) => a.takes(START).then(() => a.deltas(1, CUTTING - 1)),
    publish: (a) => a.send("DELTA", CUTTING),
    before: upTo(CUTTING - 1),
    after: upTo(CUTTING, 2),
  },
  {
    step: "setting the expiry at END",
    effect: "remind",
    prepare: (a) => a.takes(START),
    publish: (a) => a.send("END", 1),
    before: [0],
    after: [0, 1],
  },
];

async function sequencesOf(a: Channel, wanted: readonly number[]): Promise<number[]> {
  if (wanted.length > 0) return (await readAll(a.events, wanted.at(-1))).sequences;
  expect((await fetch(a.events)).status).toBe(404);
  return [];
}

const idsOf = async ({ tracked }: Stage) => (await tracked()).map(({ id }) => id);

describeAloneAndShared("A fault at a step of the publish path", (engine) => {
  for (const { step, effect, prepare, publish, before, after } of STEPS) {
    it.each<Fault>(["refused", "lost"])(`${step} (%s): the client is told, and its retry succeeds`, async (fault) => {
      const on = await stage(engine, OFTEN);
      const a = on.channel("a");
      await prepare(a);
      on.trouble.effect = effect;
      on.trouble.commit = fault;
      const failed = await publish(a);
      expect([failed.status, failed.headers.has("retry-after")]).toEqual([503, true]);
      on.trouble.commit = undefined;
      // All or nothing: what is not appended is not tracked either, and the other way round.
      const seen = fault === "refused" ? before : after;
      expect(await sequencesOf(a, seen)).toEqual(seen);
      expect(await idsOf(on)).toEqual(seen.length > 0 ? ["a"] : []);
      expect((await publish(a)).status).toBe(202);
      expect(await sequencesOf(a, after)).toEqual(after);
      expect(await idsOf(on)).toEqual(["a"]);
    });
  }

  it("size: a body that breaks off counts against no rate limit and causes no work", async () => {
    const { url, trouble, channel } = await stage(engine, { channel: { rate: 1, windowMs: 60_000 } });
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    const lines = [
      "POST /v1/default/channels/a/publish HTTP/1.1",
      "Host: localhost",
      "Content-Length: 1000",
      "",
      '{"phase":',
    ];
    await new Promise<void>((resolve) => socket.write(lines.join("\r\n"), () => resolve()));
    socket.destroy();
    // A request after it is answered, so the broken one is past the point where it could have done something.
    expect((await channel("b").sendAll([START])).status).toBe(202);
    expect(trouble.taken()).toEqual(["hit", "commit"]);
    await channel("a").takes(START);
  });

  it.each<Fault>(["refused", "lost"])(
    "rate (%s): nothing is tracked or appended, and the retry goes through",
    async (fault) => {
      const on = await stage(engine);
      on.trouble.hit = fault;
      expect((await on.channel("a").sendAll([START])).body).toMatchObject({ status: 503, code: "limiter-unavailable" });
      expect(on.trouble.taken()).toEqual(["hit"]);
      expect(await idsOf(on)).toEqual([]);
      on.trouble.hit = undefined;
      await on.channel("a").takes(START);
    },
  );

  it("loading the channel: nothing is tracked or appended, and the retry goes through", async () => {
    const on = await stage(engine);
    on.trouble.load = "refused";
    expect((await on.channel("a").sendAll([START])).status).toBe(503);
    on.trouble.load = undefined;
    expect(await idsOf(on)).toEqual([]);
    await on.channel("a").takes(START);
  });

  it.each<Fault>(["refused", "lost"])("untracking (%s): the next cleanup removes what is left", async (fault) => {
    const on = await stage(engine);
    await on.channel("ended").takes(START, { phase: "END", sequence: 1 });
    await on.channel("left").takes(START);
    on.pass(TTL_MS);
    on.trouble.effect = "destroy";
    on.trouble.commit = fault;
    await on.sweep();
    expect(on.reports.splice(0).length).toBe(2);
    expect((await idsOf(on)).sort()).toEqual(fault === "refused" ? ["ended", "left"] : []);
    on.trouble.commit = undefined;
    await on.sweep();
    expect(await idsOf(on)).toEqual([]);
    expect((await on.engine.list("default", "channel", "", "", 10)).ids).toEqual([]);
    // Both ids are free again.
    for (const id of ["ended", "left"]) await on.channel(id).takes(START);
  });
});

describeAloneAndShared("The bounds of a channel", (engine) => {
  it("a rate window is fixed: refused publishes do not prolong it", async () => {
    const { channel, pass } = await stage(engine, { channel: { rate: 2, windowMs: 1_000 } });
    const a = channel("a");
    await a.takes(START);
    await eventually(async () => {
      // On Redis time passes by itself, and there is no moving it.
      if (engine !== "redis") pass(250);
      expect((await a.send("DELTA", 1)).status).toBe(429);
    });
    await eventually(async () => {
      if (engine !== "redis") pass(250);
      expect((await a.send("DELTA", 2)).status).toBe(202);
    });
  });

  it("the cleanup asks all shards in parallel", async () => {
    const { trouble, sweep, engine: store } = await stage(engine);
    await sweep();
    expect(trouble.askedAtOnce).toBe(store.shards);
    expect(store.shards).toBe(engine === "redis" ? 64 : 1);
  });

  it("crashed publishers and finished ones leave nothing behind", async () => {
    const { channel, pass, sweep, tracked, engine: store } = await stage(engine);
    for (const id of ["crashed", "finished", "failed"]) await channel(id).takes(START, { phase: "DELTA", sequence: 1 });
    await channel("finished").takes({ phase: "END", sequence: 2 });
    await channel("failed").takes({ phase: "ERROR", sequence: 2 });
    pass(2 * TTL_MS);
    await sweep();
    expect(await tracked()).toEqual([]);
    expect((await store.list("default", "channel", "", "", 10)).ids).toEqual([]);
    for (const id of ["crashed", "finished", "failed"]) {
      const { head, rows } = await store.load(channelEntity("default", id), []);
      expect([head.bytes, rows.length]).toEqual([0, 0]);
      expect((await fetch(channel(id).events)).status).toBe(404);
    }
  });
});

it("on Redis, the shard of a channel follows from its project and id alone, for good: another one would orphan what is tracked", () => {
  const shards = [channelEntity("default", "a"), channelEntity("shop", "a"), channelEntity("default", "answers/7")];
  expect(shards.map(({ key }) => bucketOf(key))).toEqual([49, 52, 27]);
});
