/**
 * The rules of sharded topics: which shard takes a key, and the steps of a topic and its shards. How these steps follow each other,
 * and what a crash between them leaves, is in `test/shards`.
 */
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { MAX_SHARDS, shardPath, topicOfShard } from "../core/shard-path.ts";
import { NO_HEAD } from "../engine/contract.ts";
import { STREAM_LIMITS } from "./defaults.ts";
import {
  abandonRule,
  closeRule,
  destroyTopicRule,
  dropShardRule,
  hashOf,
  lookRule,
  makeShardRule,
  restRule,
  shardOf,
  wholeRule,
} from "./shards.ts";
import { type Meta, metaTable } from "./state.ts";

const APPEND = { payloads: [], close: false };

describe("the shard of a key", () => {
  it("follows from a hash that never changes, because clients compute it too", () => {
    const known: [string, number][] = [
      ["", 0xab3e7c0b],
      ["a", 0x1a80b1b3],
      ["order-1", 0x92005a9c],
      ["order-2", 0x77d852c0],
      ["größe", 0xcda1b73c],
      ["日本", 0xf004911f],
      ["x".repeat(1_024), 0x7e62ef62],
    ];
    for (const [text, hash] of known) expect(hashOf(text), text.slice(0, 8)).toBe(hash);
  });

  it("is that of the key, else of the producer, else none in particular", () => {
    const producer = { id: "order-2", epoch: 0, seq: 0 };
    expect(shardOf({ ...APPEND, messageKey: "order-1", producer }, 256)).toBe(0x9c);
    expect(shardOf({ ...APPEND, producer }, 256)).toBe(0xc0);
    expect(shardOf(APPEND, 256)).toBeUndefined();
  });

  it.each([2, 3, 8, 100, 256])("spreads keys that are alike evenly over %i shards", (shards) => {
    for (const key of [(i: number) => `user-${i}`, (i: number) => `${i}${i}`, (i: number) => String(i * 1_000)]) {
      const counts = new Array<number>(shards).fill(0);
      const keys = 200 * shards;
      for (let i = 0; i < keys; i++) counts[hashOf(key(i)) % shards]!++;
      expect(Math.min(...counts)).toBeGreaterThan(120);
      expect(Math.max(...counts)).toBeLessThan(280);
    }
  });
});

describe("the path of a shard", () => {
  it("tells its topic, and no other path is taken for the path of a shard", () => {
    for (const topic of ["a", "a/b", "日本", "a/$shard/b", "$x"]) {
      for (const i of [0, 9, 10, MAX_SHARDS - 1]) expect(topicOfShard(shardPath(topic, i))).toBe(topic);
    }
    for (const path of [
      "a",
      "a/$shard",
      "a/$shard/",
      "a/$shard/01",
      "a/$shard/x",
      "a/$shard/0/b",
      "/$shard/0",
      "a/$shards/0",
    ]) {
      expect(topicOfShard(path), path).toBeUndefined();
    }
  });
});

const viewOf = (meta: Meta | undefined, at = 0) => new RuleView({ ...NO_HEAD, at }).with(metaTable, "", meta);

const NOW = 1_000_000;
const CONFIG = { contentType: "text/plain" };
const plain: Meta = { config: CONFIG, createdAt: 0, touchedAt: 0, closed: false };
const topicOf = (step: NonNullable<Meta["topic"]>["step"], more: Partial<Meta> = {}): Meta => ({
  ...plain,
  config: { ...CONFIG, shards: 2 },
  topic: { id: "t", step },
  ...more,
});

describe("the last step of a topic", () => {
  const outcome = (meta: Meta | undefined) => destroyTopicRule(viewOf(meta), "t").outcome.kind;

  it("is taken only when the topic was deleted or its end has begun, and only for this incarnation", () => {
    expect(outcome(topicOf(undefined, { deleted: true }))).toBe("deleted");
    expect(outcome(topicOf("ending"))).toBe("deleted");
    // A client has used it meanwhile, and so made it whole again.
    expect(outcome(topicOf(undefined))).toBe("absent");
    expect(outcome(topicOf("closing"))).toBe("absent");
    expect(outcome(topicOf("ending", { topic: { id: "another", step: "ending" } }))).toBe("absent");
    expect(outcome(plain)).toBe("absent");
    expect(outcome(undefined)).toBe("absent");
  });
});

describe("a shard", () => {
  const make = (meta: Meta | undefined) =>
    makeShardRule(viewOf(meta), NOW, { topicId: "t", config: { ...CONFIG, shards: 2 }, closed: false }, STREAM_LIMITS);

  it("is created where nothing is stored, and asks for a check by the sweep", () => {
    const { outcome, changes } = make(undefined);
    expect(outcome).toEqual({ kind: "made" });
    expect(changes).toContainEqual({ op: "remind", atMs: NOW + STREAM_LIMITS.shardCheckMs });
    const meta = changes!.find((change) => change.op === "put");
    expect(meta).toMatchObject({ value: { shardOf: "t", config: { shards: undefined, contentType: "text/plain" } } });
  });

  it("is not created where a stream or a shard of any topic is stored", () => {
    expect(make({ ...plain, shardOf: "t", closed: true }).outcome).toEqual({ kind: "there", closed: true });
    expect(make({ ...plain, shardOf: "another" }).outcome).toEqual({ kind: "others", topicId: "another" });
    expect(make(plain).outcome).toEqual({ kind: "taken" });
    expect(make({ ...plain, shardOf: "t", deleted: true }).outcome).toEqual({ kind: "taken" });
    for (const meta of [plain, { ...plain, shardOf: "another" }]) expect(make(meta).changes).toBeUndefined();
  });

  it("goes with its own topic only, and only after its TTL where that is asked for", () => {
    const drop = (meta: Meta, ifIdle: boolean, at = 0) =>
      dropShardRule(viewOf(meta, at), NOW, "t", ifIdle, STREAM_LIMITS).outcome.kind;
    const shard: Meta = { ...plain, shardOf: "t", config: { ...CONFIG, ttlSeconds: 100 } };
    expect([drop(shard, false), drop(shard, true)]).toEqual(["deleted", "deleted"]);
    expect([drop(shard, false, NOW - 1), drop(shard, true, NOW - 1)]).toEqual(["deleted", "kept"]);
    expect([drop(shard, true, NOW - 110_000), drop(shard, true, NOW - 109_999)]).toEqual(["deleted", "kept"]);
    expect([drop(plain, false), drop({ ...shard, shardOf: "x" }, false)]).toEqual(["absent", "absent"]);
  });
});

describe("a topic", () => {
  it("is whole once its shards are there, open or closed as the topic is", () => {
    expect(wholeRule(viewOf(topicOf("making")), NOW, "t", false).outcome).toBe("whole");
    expect(wholeRule(viewOf(topicOf("closing", { closed: true })), NOW, "t", false).outcome).toBe("changed");
    expect(wholeRule(viewOf(topicOf("making", { deleted: true })), NOW, "t", false).outcome).toBe("absent");
    expect(wholeRule(viewOf(topicOf("making")), NOW, "another", false).outcome).toBe("absent");
    expect(wholeRule(viewOf(topicOf(undefined)), NOW, "t", false).changes).toBeUndefined();
  });

  it("rests until a tenth more than its TTL has passed since the last use of any shard", () => {
    const config = { ...CONFIG, shards: 2, ttlSeconds: 100 };
    const rest = (usedAt: number) => restRule(viewOf(topicOf(undefined, { config })), NOW, "t", usedAt, STREAM_LIMITS);
    expect(rest(NOW - 110_000).outcome).toBe("ending");
    expect(rest(NOW - 109_999)).toMatchObject({ outcome: "kept", changes: [{ op: "remind", atMs: NOW + 1 }, {}] });
  });

  it.each<[string, Meta | undefined, string]>([
    ["a topic in any step", topicOf("making"), "topic"],
    ["no topic that was deleted", topicOf(undefined, { deleted: true }), "absent"],
    ["no topic at its expiry", topicOf(undefined, { config: { ...CONFIG, shards: 2, expiresAt: NOW } }), "absent"],
    ["no plain stream", plain, "absent"],
    ["nothing where nothing is", undefined, "absent"],
  ])("is looked up: %s", (_, meta, kind) => {
    expect(lookRule(viewOf(meta), NOW).outcome.kind).toBe(kind);
  });

  it("is closed at once, as a use, and is looked at until its shards have followed", () => {
    const view = viewOf(topicOf(undefined));
    expect(view.run(closeRule(view, NOW, STREAM_LIMITS)).kind).toBe("closing");
    expect(view.get(metaTable, "")).toMatchObject({
      closed: true,
      touchedAt: NOW,
      topic: { id: "t", step: "closing" },
    });
    expect(view.reminder).toBe(NOW + STREAM_LIMITS.shardCheckMs);
    expect(closeRule(view, NOW, STREAM_LIMITS)).toEqual({ outcome: { kind: "closing", next: view.head.last } });
    view.run(wholeRule(view, NOW, "t", true));
    expect([view.get(metaTable, "")?.topic, view.reminder]).toEqual([{ id: "t" }, null]);
    expect(closeRule(view, NOW, STREAM_LIMITS)).toEqual({ outcome: { kind: "closed", next: view.head.last } });
    expect(closeRule(viewOf(plain), NOW, STREAM_LIMITS)).toEqual({ outcome: { kind: "absent" } });
  });

  it.each<[string, Meta | undefined, string]>([
    ["is taken back while it is made", topicOf("making"), "ending"],
    ["is taken back while it ends", topicOf("ending"), "ending"],
    ["is kept while it is closed", topicOf("closing", { closed: true }), "kept"],
    ["is kept once it is whole", topicOf(undefined), "kept"],
    ["of another incarnation is left alone", topicOf("making", { topic: { id: "another", step: "making" } }), "absent"],
    ["that was deleted is left alone", topicOf("making", { deleted: true }), "absent"],
  ])("that could not be made %s", (_, meta, kind) => {
    const view = viewOf(meta);
    expect(view.run(abandonRule(view, NOW, "t", STREAM_LIMITS)).kind).toBe(kind);
    expect(view.get(metaTable, "")?.deleted ?? false).toBe(kind === "ending" || meta?.deleted === true);
  });
});
