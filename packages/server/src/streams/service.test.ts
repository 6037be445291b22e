import { describe, expect, it } from "vitest";
import { codeOf } from "../../../../test/support/refusal-code.ts";
import { manualWorld } from "../../../../test/support/world.ts";
import { FULL_ACCESS } from "../core/action.ts";
import { utf8 } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { Keepers } from "../engine/keeper.ts";
import { openMemory } from "../engine/memory/memory.ts";
import { STREAM_LIMITS } from "./defaults.ts";
import { type CreateRequest, Streams } from "./service.ts";

function streams(limits = STREAM_LIMITS, world: World = manualWorld(1)): Streams {
  const engine = openMemory({ world });
  return new Streams(engine, new Keepers(engine, (task) => world.soon(task)), world, limits);
}

const NEW: CreateRequest = { config: { contentType: "application/json" }, closed: false };

describe("a stream is not created, whichever door asks,", () => {
  it.each([
    ["session:1", "reserved-name"],
    ["$share/g/a", "reserved-name"],
    ["__ds/x", "reserved-name"],
    ["a/$shard/0", "reserved-name"],
    ["a b", "bad-path"],
    ["a\u00a0b", "bad-path"],
    ["a\u0085", "bad-path"],
    ["a\nb", "bad-path"],
    ["a\ud800", "bad-path"],
    ["a/+", "bad-path"],
    ["a/#", "bad-path"],
    ["", "bad-path"],
    ["a/../b", "bad-path"],
    ["x".repeat(1_025), "bad-path"],
  ])("at %j: %s", async (path, code) => {
    expect(await codeOf(() => streams().create("p", path, NEW))).toBe(code);
  });

  it("as a topic whose shards would have too long a path", async () => {
    const config = { contentType: "text/plain", shards: 100 };
    expect(await codeOf(() => streams().create("p", "x".repeat(1_020), { ...NEW, config }))).toBe("bad-path");
  });

  it.each<[string, Partial<CreateRequest>, string]>([
    ["a body that is not JSON", { body: utf8("{") }, "bad-body"],
    ["a message that is not JSON", { payloads: [utf8("1"), utf8("{")] }, "bad-body"],
    ["a topic with a first message", { config: { shards: 2 }, body: utf8("1") }, "bad-body"],
    ["a fork of a reserved path", { fork: { source: "session:1", subOffset: 0 } }, "reserved-name"],
    ["a fork that is a topic", { config: { shards: 2 }, fork: { source: "a", subOffset: 0 } }, "bad-header"],
  ])("with %s", async (_, more, code) => {
    expect(await codeOf(() => streams().create("p", "a", { ...NEW, ...more }))).toBe(code);
  });

  it.each<[string, CreateRequest["config"]]>([
    ["a limit of no messages", { retention: { maxMessages: 0 } }],
    ["a number of messages that is not a number", { retention: { maxMessages: Number.NaN } }],
    ["a fraction of a byte", { retention: { maxBytes: 0.5 } }],
    ["an age of nothing", { retention: { maxAgeMs: 0 } }],
    ["an age that is not a number", { retention: { maxAgeMs: Number.NaN } }],
    ["an age over a century", { retention: { maxAgeMs: 1e15 } }],
    ["a TTL below 0", { ttlSeconds: -1 }],
    ["a TTL over a century", { ttlSeconds: 1e10 }],
    ["a TTL and a time to expire", { ttlSeconds: 1, expiresAt: 1 }],
    ["a time that is none", { expiresAt: Number.NaN }],
    ["a time that no header can show", { expiresAt: 8.64e15 }],
    ["a line break in its content type", { contentType: "text/plain\r\nX: y" }],
    ["a line break after its content type", { contentType: "text/plain\r\n" }],
    ["a control character in a parameter", { contentType: "text/plain;a=\u0000" }],
    ["a content type that is none", { contentType: "text" }],
    ["no shard", { shards: 0 }],
    ["too many shards", { shards: 257 }],
  ])("with %s", async (_, config) => {
    expect(await codeOf(() => streams().create("p", "a", { config, closed: false }))).toBe("bad-header");
  });

  it("as a fork of a stream that the caller may not read", async () => {
    const on = streams();
    await on.create("p", "secret", NEW);
    const access = {
      ...FULL_ACCESS,
      demand: () => {
        throw new Refusal("forbidden", "no");
      },
    };
    const fork = { source: "secret", subOffset: 0 };
    expect(await codeOf(() => on.create("p", "mine", { ...NEW, fork }, access))).toBe("forbidden");
  });
});

it("a new path may have everything that is not refused: other scripts, punctuation, dots within a level", async () => {
  for (const path of ["späť/日本", "a.b", "a/…", "%20", "a:b,c;d=e", "user@host"]) {
    expect(await codeOf(() => streams().create("p", path, NEW)), path).toBe("taken");
  }
});

describe("an append is not taken, whichever door asks,", () => {
  const body = utf8("1");
  const contentType = "application/json";
  it.each([
    ["to an inbox", "session:1", { body, contentType, close: false }, "reserved-name"],
    ["to a reserved path", "$x", { body, contentType, close: false }, "reserved-name"],
    [
      "by a producer of fan-out",
      "a",
      { body, contentType, close: false, producer: { id: "fanout:a", epoch: 1, seq: 0 } },
      "reserved-name",
    ],
    ["without a body", "a", { contentType, close: false }, "empty-body"],
    ["without a message", "a", { payloads: [], contentType, close: false }, "empty-body"],
    ["with an empty array", "a", { body: utf8("[]"), contentType, close: false }, "empty-body"],
    ["without a content type", "a", { body, close: false }, "bad-header"],
    ["that is not JSON", "a", { body: utf8("{"), contentType, close: false }, "bad-body"],
    ["of a message that is not JSON", "a", { payloads: [utf8("nope")], contentType, close: false }, "bad-body"],
  ])("%s", async (_, path, request, code) => {
    const on = streams();
    await on.create("p", "a", NEW);
    expect(await codeOf(async () => on.append("p", path, request))).toBe(code);
  });

  it("beyond the limits of a body, in one piece or apart", async () => {
    const on = streams({ ...STREAM_LIMITS, bodyBytes: 10, bodyMessages: 2 });
    await on.create("p", "a", NEW);
    for (const request of [
      { body: utf8("[1,2,3,4,5,6]") },
      { body: utf8("[1,2,3]") },
      { payloads: [utf8("1"), utf8("2"), utf8("3")] },
      { payloads: [utf8('"1234567890"')] },
    ]) {
      expect(await codeOf(async () => on.append("p", "a", { ...request, contentType, close: false }))).toBe(
        "too-large",
      );
    }
  });
});

it("a JSON array in one body is several messages; apart they stay as they are", async () => {
  const on = streams();
  await on.create("p", "a", NEW);
  const contentType = "application/json";
  await on.append("p", "a", { body: utf8("[1,[2]]"), contentType, close: false });
  await on.append("p", "a", { payloads: [utf8("[3,4]")], contentType, close: false });
  const page = await on.read("p", "a", undefined, 1_000);
  const texts = page.kind === "page" ? page.messages.map(({ payload }) => new TextDecoder().decode(payload)) : [];
  expect(texts).toEqual(["1", "[2]", "[3,4]"]);
});

it("an append to a topic that is created anew on its way goes to a shard of the new topic", async () => {
  const on = streams();
  const topicOf = (shards: number) => on.create("p", "t", { ...NEW, config: { ...NEW.config, shards } });
  await topicOf(1);
  const appendAt = on.appendAt.bind(on);
  let isOnItsWay = false;
  on.appendAt = async (project, path, input) => {
    if (path === "t" || isOnItsWay) return appendAt(project, path, input);
    isOnItsWay = true;
    await on.delete("p", "t");
    await topicOf(3);
    return appendAt(project, path, input);
  };
  const request = { body: utf8("1"), contentType: "application/json", close: false };
  expect(await on.append("p", "t", request)).toMatchObject({ kind: "appended", next: { seq: 1 } });
});

it("what only the server deletes is not deleted for a caller", async () => {
  for (const path of ["session:1", "$x", "a/$shard/0"]) {
    expect(await codeOf(async () => streams().delete("p", path))).toBe("reserved-name");
  }
});

it("an odd name that was stored before stays readable and deletable", async () => {
  const on = streams();
  const config = { contentType: "application/json" };
  await on.createAt("p", "old name+#", { config, closed: false, payloads: [utf8("1")] });
  expect(await on.read("p", "old name+#", undefined, 1_000)).toMatchObject({ kind: "page" });
  expect((await on.delete("p", "old name+#")).kind).toBe("deleted");
});

it("no caller reads an inbox until sessions say which may", async () => {
  const on = streams();
  expect(await codeOf(() => on.demandReader("p", "session:1", FULL_ACCESS))).toBe("stream-not-found");
  on.guardInboxes(async () => {});
  expect(await codeOf(() => on.demandReader("p", "session:1", FULL_ACCESS))).toBe("taken");
});

it("publish times never fall, whatever the clock does", async () => {
  let now = 1_000_000;
  const on = streams(STREAM_LIMITS, { ...manualWorld(1), now: () => now });
  await on.create("p", "a", NEW);
  for (const step of [0, -60_000, 90_000]) {
    now += step;
    await on.append("p", "a", { body: utf8("1"), contentType: "application/json", close: false });
  }
  const page = await on.read("p", "a", undefined, 1_000);
  const times = page.kind === "page" ? page.messages.map(({ at }) => at) : [];
  expect(times).toEqual([1_000_000, 1_000_000, 1_030_000]);
});

it("a fork at the tail of a source that is created anew meanwhile is a fork of the new one", async () => {
  const world = manualWorld(1);
  const engine = openMemory({ world });
  const keepers = new Keepers(engine, (task) => world.soon(task));
  const others = new Streams(engine, keepers, world);
  const renew = async (text: string) => {
    await others.delete("p", "source");
    await others.create("p", "source", { ...NEW, body: utf8(text) });
  };
  await renew("[1,2,3]");
  let isLate = false;
  // The fork's own path is looked at after the source and before the source stores the fork.
  const load: Engine["load"] = async (e, keys) => {
    if (e.id === "fork" && !isLate) {
      isLate = true;
      await renew("[4]");
    }
    return engine.load(e, keys);
  };
  const on = new Streams(Object.create(engine, { load: { value: load } }), keepers, world);
  expect((await on.create("p", "fork", { ...NEW, fork: { source: "source", subOffset: 0 } })).kind).toBe("created");
  const page = await on.read("p", "fork", undefined, 1_000);
  expect(page.kind === "page" && page.messages.map(({ payload }) => new TextDecoder().decode(payload))).toEqual(["4"]);
});

it("a reader that waits prolongs the life of a stream, and none that of a topic, which has no readers", async () => {
  const world = manualWorld(1);
  const on = streams(STREAM_LIMITS, world);
  const config = { contentType: "application/json", ttlSeconds: 100 };
  await on.create("p", "stream", { ...NEW, config });
  await on.create("p", "topic", { ...NEW, config: { ...config, shards: 2 } });
  const usedAt = async (path: string) => {
    const described = await on.describe("p", path);
    return described.kind === "live" ? described.meta.touchedAt : undefined;
  };
  const [stream, topic] = [await usedAt("stream"), await usedAt("topic")];
  world.advance(50_000);
  await on.look("p", "stream");
  await on.look("p", "topic");
  expect([await usedAt("stream"), await usedAt("topic")]).toEqual([stream! + 50_000, topic]);
});
