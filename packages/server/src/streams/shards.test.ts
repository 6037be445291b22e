import { describe, expect, it } from "vitest";
import { MAX_SHARDS, shardPath, topicOfShard } from "../core/shard-path.ts";
import { hashOf, shardOf } from "./shards.ts";

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
