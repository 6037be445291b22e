/** What is read off a stored stream: whether it is live, when it ends, when a use is stored, and which content types are equal. */
import { describe, expect, it } from "vitest";
import { NO_HEAD } from "../engine/contract.ts";
import {
  endsAt,
  followsOf,
  isJson,
  isSameType,
  isText,
  lifeOf,
  type Meta,
  mediaType,
  type StreamConfig,
  sessionOf,
  slides,
  streamEntity,
} from "./state.ts";

const NOW = 1_000_000;
const FORKS: Partial<Meta> = { forks: { count: 1, needAfter: { generation: 1, seq: 0 } } };
const NO_FORKS: Partial<Meta> = { forks: { count: 0, needAfter: { generation: 1, seq: 0 } } };
const TOPIC: Partial<Meta> = { topic: { id: "t" } };
const OVER = { expiresAt: NOW };
const IDLE = { ttlSeconds: 100 };

const metaOf = (config: Partial<StreamConfig>, more: Partial<Meta> = {}): Meta => ({
  config: { contentType: "text/plain", ...config },
  createdAt: 0,
  touchedAt: 0,
  closed: false,
  ...more,
});

describe("the life of a stream", () => {
  it.each<[string, Meta | undefined, string]>([
    ["nothing stored is absent", undefined, "absent"],
    ["a stream without an end is live", metaOf({}), "live"],
    ["a closed stream is live", metaOf({}, { closed: true }), "live"],
    ["a stream is live until its expiry", metaOf({ expiresAt: NOW + 1 }), "live"],
    ["a stream is absent from its expiry on", metaOf(OVER), "absent"],
    ["an expired stream that forks read is gone", metaOf(OVER, FORKS), "gone"],
    ["an expired stream whose forks have all gone is absent", metaOf(OVER, NO_FORKS), "absent"],
    ["a deleted stream is gone", metaOf({}, { deleted: true, ...FORKS }), "gone"],
    ["a deleted inbox is absent", metaOf({}, { deleted: true, inbox: true }), "absent"],
    ["a deleted topic is absent", metaOf({}, { deleted: true, ...TOPIC }), "absent"],
    ["a stream whose TTL is over is absent", metaOf(IDLE), "absent"],
    ["a topic whose TTL is over is live until the sweep has asked its shards", metaOf(IDLE, TOPIC), "live"],
    ["a topic at its expiry is absent", metaOf({ ...IDLE, ...OVER }, TOPIC), "absent"],
    ["a shard has no TTL of its own", metaOf(IDLE, { shardOf: "t" }), "live"],
    ["a shard ends at the expiry it has from its topic", metaOf(OVER, { shardOf: "t" }), "absent"],
  ])("%s", (_, meta, life) => {
    expect(lifeOf(meta, NO_HEAD, NOW)).toBe(life);
  });
});

describe("the end of a stream with a TTL of 100 s", () => {
  it.each<[string, Partial<Meta>, number, number]>([
    ["lies a tenth later than the TTL after the last stored use", { touchedAt: 500 }, 0, 500 + 110_000],
    ["is put off by an append", { touchedAt: 500 }, 900, 900 + 110_000],
    ["is not put off by an append before the last use", { touchedAt: 500 }, 100, 500 + 110_000],
    ["is not put off by a copy into an inbox", { touchedAt: 500, inbox: true }, 900, 500 + 110_000],
  ])("%s", (_, more, at, end) => {
    expect(endsAt(metaOf(IDLE, more), { ...NO_HEAD, at })).toBe(end);
  });

  it("is never early, although a use within a tenth of the TTL is not stored", () => {
    const meta = metaOf(IDLE, { touchedAt: NOW });
    const lastUnstored = NOW + 10_000;
    expect([slides(meta, NO_HEAD, lastUnstored), slides(meta, NO_HEAD, lastUnstored + 1)]).toEqual([false, true]);
    expect(endsAt(meta, NO_HEAD)).toBeGreaterThanOrEqual(lastUnstored + 100_000);
  });

  it("yields to an expiry, and does not exist without either", () => {
    expect(endsAt(metaOf({ ...IDLE, expiresAt: 7 }), NO_HEAD)).toBe(7);
    expect(endsAt(metaOf({}), NO_HEAD)).toBeUndefined();
    expect(slides(metaOf({}), NO_HEAD, NOW)).toBe(false);
  });
});

describe("a content type", () => {
  it.each([
    ["text/plain", "text/plain", true],
    ["text/plain", "TEXT/Plain", true],
    ["text/plain", "text/plain; charset=utf-8", true],
    ["text/plain ;a=b", "text/plain; c=d", true],
    ["text/plain", "text/html", false],
    ["application/json", "application/ld+json", false],
    ["", "text/plain", false],
  ])("%j and %j are the same: %s", (a, b, isSame) => {
    expect([isSameType(a, b), isSameType(b, a)]).toEqual([isSame, isSame]);
  });

  it.each([
    ["application/json", "application/json", true, false],
    ["Application/JSON; v=1", "application/json", true, false],
    ["application/ld+json", "application/ld+json", true, false],
    ["text/json", "text/json", false, true],
    ["text/plain;x", "text/plain", false, true],
    ["application/octet-stream", "application/octet-stream", false, false],
  ])("%s is of the media type %s; JSON: %s, text: %s", (contentType, type, json, text) => {
    expect([mediaType(contentType), isJson(contentType), isText(contentType)]).toEqual([type, json, text]);
  });
});

it("the names of followers are read in the old form as fan-out's, unless there are new ones", () => {
  expect(followsOf(metaOf({}))).toBeUndefined();
  expect(followsOf(metaOf({}, { follow: "f" }))).toEqual({ fanout: "f" });
  expect(followsOf(metaOf({}, { follow: "f", follows: { wakes: "w" } }))).toEqual({ wakes: "w" });
});

it("an inbox is an entity of another kind than a stream, and its path names its session", () => {
  expect(streamEntity("p", "a/b")).toMatchObject({ project: "p", kind: "stream", id: "a/b" });
  expect(streamEntity("p", "session:1").kind).toBe("session");
  expect([sessionOf("session:1"), sessionOf("a")]).toEqual(["1", undefined]);
});
