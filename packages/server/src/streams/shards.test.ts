import { describe, expect, it } from "vitest";
import { MAX_SHARDS, shardPath, topicOfShard } from "../core/shard-path.ts";
import { NO_HEAD } from "../engine/contract.ts";
import type { View } from "../engine/keeper.ts";
import { STREAM_LIMITS } from "./limits.ts";
import { destroyTopicRule, dropShardRule, hashOf, makeShardRule, restRule, shardOf, wholeRule } from "./shards.ts";
import type { Meta } from "./state.ts";

const APPEND = { payloads: [], close: false };

describe("the shard of a key", () => {
  it("follows from a hash that never changes: others compute it too", () => {
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

  it("is that of the key, else of the producer, else anybody's", () => {
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
  it("tells its topic, and nothing else is taken for one", () => {
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

/** A stream of which nothing but this is known. */
function viewOf(meta: Meta | undefined, at = 0): View {
  const head = { ...NO_HEAD, at };
  return { exists: meta !== undefined, head, nextGeneration: 1, get: <T>() => meta as T | undefined };
}

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

  it("is for one that was deleted or whose end has begun, and of this life", () => {
    expect(outcome(topicOf(undefined, { deleted: true }))).toBe("deleted");
    expect(outcome(topicOf("ending"))).toBe("deleted");
    // Somebody has used it meanwhile, and made it whole again.
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

  it("is made where nothing is, and asks to be looked at", () => {
    const { outcome, changes } = make(undefined);
    expect(outcome).toEqual({ kind: "made" });
    expect(changes).toContainEqual({ op: "remind", atMs: NOW + STREAM_LIMITS.shardCheckMs });
    const meta = changes!.find((change) => change.op === "put");
    expect(meta).toMatchObject({ value: { shardOf: "t", config: { shards: undefined, contentType: "text/plain" } } });
  });

  it("is not made where something is, whosever that may be", () => {
    expect(make({ ...plain, shardOf: "t", closed: true }).outcome).toEqual({ kind: "there", closed: true });
    expect(make({ ...plain, shardOf: "another" }).outcome).toEqual({ kind: "others", topicId: "another" });
    expect(make(plain).outcome).toEqual({ kind: "taken" });
    expect(make({ ...plain, shardOf: "t", deleted: true }).outcome).toEqual({ kind: "taken" });
    for (const meta of [plain, { ...plain, shardOf: "another" }]) expect(make(meta).changes).toBeUndefined();
  });

  it("goes with its own topic only, and when it is idle if that is asked for", () => {
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
  it("is whole when its shards are what it is by now", () => {
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
});
