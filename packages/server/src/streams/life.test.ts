/**
 * The rules of a stream's life, by table: creating and comparing, sliding a TTL, deleting, sweeping and being held. The source's
 * side of a fork is in `life-forks.test.ts`.
 */
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { utf8 } from "../core/bytes.ts";
import { type Head, NO_HEAD } from "../engine/contract.ts";
import { appendRule } from "./append.ts";
import { STREAM_LIMITS } from "./defaults.ts";
import { type Create, compareRule, createRule, deleteRule, holdRule, sweepRule, touchRule } from "./life.ts";
import { type ForkOrigin, holdsTable, type Meta, metaTable, type StreamConfig } from "./state.ts";

const NOW = 1_000_000;
const TEXT = "text/plain";
const TAIL = { generation: 3, seq: 7 };
const PLAIN: Meta = { config: { contentType: TEXT }, createdAt: 0, touchedAt: 0, closed: false };
const FORKS = { count: 1, needAfter: { generation: 3, seq: 0 } };

const withConfig = (more: Partial<StreamConfig>): Partial<Meta> => ({ config: { contentType: TEXT, ...more } });

function viewOf(meta: Partial<Meta> = {}, head: Partial<Head> = {}): RuleView {
  const view = new RuleView({ ...NO_HEAD, generation: 3, last: TAIL, start: { generation: 3, seq: 0 }, ...head });
  return view.with(metaTable, "", { ...PLAIN, ...meta });
}

const create = (more: Partial<Create> = {}): Create => ({ config: PLAIN.config, closed: false, payloads: [], ...more });
const asked = (more: Partial<StreamConfig>): Create => create({ config: { contentType: TEXT, ...more } });

const origin: ForkOrigin = {
  source: "s",
  askedOffset: "x",
  askedSubOffset: 0,
  id: "i",
  lineage: [{ path: "s", through: { generation: 5, seq: 40 } }],
};

describe("creating where no stream is", () => {
  const created = (input: Create, nextGeneration = 4) => {
    const view = new RuleView();
    view.nextGeneration = nextGeneration;
    const outcome = view.run(createRule(view, NOW, input));
    expect(outcome).toMatchObject({ kind: "created", next: view.head.last, meta: view.get(metaTable, "") });
    return view;
  };

  it("begins a history in the generation that the engine offers, with the messages of the request", () => {
    const view = created(create({ payloads: [utf8("a"), utf8("b")], closed: true }));
    expect(view.head).toMatchObject({ generation: 4, last: { generation: 4, seq: 2 }, at: NOW });
    expect(view.log.map(({ payload }) => payload)).toEqual([utf8("a"), utf8("b")]);
    expect(view.get(metaTable, "")).toMatchObject({ createdAt: NOW, touchedAt: NOW, closed: true });
  });

  it("continues a fork after the last inherited message, in a generation of its own after the source's", () => {
    expect(created(create({ origin })).head).toMatchObject({ generation: 6, last: { generation: 5, seq: 40 } });
    const later = created(create({ origin, payloads: [utf8("a")] }), 9);
    expect(later.head.last).toEqual({ generation: 9, seq: 41 });
    expect(later.get(metaTable, "")?.origin).toEqual(origin);
  });

  it("leaves a topic in the step of making its shards, and ties a shard to its topic", () => {
    expect(created(create({ topicId: "t" })).get(metaTable, "")?.topic).toEqual({ id: "t", step: "making" });
    expect(created(create({ shardOf: "t" })).get(metaTable, "")?.shardOf).toBe("t");
  });

  it("keeps of the request's messages what retention asks for", () => {
    const payloads = [utf8("a"), utf8("b"), utf8("c")];
    const view = created(create({ config: { contentType: TEXT, retention: { maxMessages: 1 } }, payloads }));
    expect(view.head.start).toEqual({ generation: 4, seq: 2 });
  });

  it.each<[string, Create, number | undefined]>([
    ["a stream that is kept forever asks for no reminder", create(), undefined],
    ["a TTL reminds when it is over, a tenth later than asked", asked({ ttlSeconds: 100 }), NOW + 110_000],
    ["an expiry reminds at its time", asked({ expiresAt: NOW + 5 }), NOW + 5],
    ["an age limit reminds a twentieth of it later", asked({ retention: { maxAgeMs: 100_000 } }), NOW + 5_000],
    ["a short age limit reminds no sooner than in a second", asked({ retention: { maxAgeMs: 10 } }), NOW + 1_000],
    ["the earlier of expiry and age limit reminds", asked({ expiresAt: NOW + 5, retention: { maxAgeMs: 1 } }), NOW + 5],
    ["a check that is asked for reminds by itself", create({ checkMs: 7 }), NOW + 7],
    ["a check reminds before a later end", { ...asked({ ttlSeconds: 100 }), checkMs: 7 }, NOW + 7],
    ["an end reminds before a later check", { ...asked({ expiresAt: NOW + 5 }), checkMs: 7 }, NOW + 5],
    ["a shard has no end of its own", { ...asked({ ttlSeconds: 100 }), shardOf: "t" }, undefined],
  ])("%s", (_, input, reminder) => {
    expect(created(input).reminder).toBe(reminder);
  });
});

describe("creating where a stream is", () => {
  const live: Partial<Meta> = {
    config: { contentType: TEXT, ttlSeconds: 9_000, retention: { maxMessages: 1, maxBytes: 2, maxAgeMs: 3 } },
    origin,
  };
  const same = create({ config: live.config!, origin });
  const config = (more: Partial<StreamConfig>): Create => ({ ...same, config: { ...same.config, ...more } });
  const retention = (more: object) => config({ retention: { ...same.config.retention, ...more } });

  it.each<[string, Create]>([
    ["the same request finds it and changes nothing", same],
    ["parameters and case of the content type do not count", config({ contentType: "TEXT/plain; charset=utf-8" })],
    ["messages of a repeated request are not appended again", { ...same, payloads: [utf8("a")] }],
  ])("%s", (_, input) => {
    const view = viewOf(live);
    const exists = { outcome: { kind: "exists", meta: view.get(metaTable, ""), next: TAIL } };
    expect(createRule(view, NOW, input)).toEqual(exists);
    expect(compareRule(view, NOW, input)).toEqual(exists);
  });

  it.each<[string, Create]>([
    ["Stream-Shards", config({ shards: 4 })],
    ["Content-Type", config({ contentType: "text/html" })],
    ["Stream-TTL", config({ ttlSeconds: 9_001 })],
    ["Stream-TTL", config({ ttlSeconds: undefined })],
    ["Stream-Expires-At", config({ expiresAt: NOW + 1 })],
    ["Stream-Max-Messages", retention({ maxMessages: 2 })],
    ["Stream-Max-Bytes", retention({ maxBytes: undefined })],
    ["Stream-Max-Age-Seconds", retention({ maxAgeMs: 4 })],
    ["Stream-Max-Messages", config({ retention: undefined })],
    ["Stream-Closed", { ...same, closed: true }],
    ["Stream-Forked-From", { ...same, origin: undefined }],
    ["Stream-Forked-From", { ...same, origin: { ...origin, source: "z" } }],
    ["Stream-Fork-Offset", { ...same, origin: { ...origin, askedOffset: undefined } }],
    ["Stream-Fork-Sub-Offset", { ...same, origin: { ...origin, askedSubOffset: 1 } }],
  ])("a difference in %s is named, and nothing changes: %#", (what, input) => {
    const differs = { outcome: { kind: "differs", what } };
    expect(createRule(viewOf(live), NOW, input)).toEqual(differs);
    expect(compareRule(viewOf(live), NOW, input)).toEqual(differs);
  });

  it("compares a fork by what was asked for, not by where it landed", () => {
    const elsewhere = { ...origin, id: "another", lineage: [] };
    expect(createRule(viewOf(live), NOW, { ...same, origin: elsewhere }).outcome.kind).toBe("exists");
  });

  it.each<[string, Partial<Meta>, string, string]>([
    ["a stream whose expiry has passed must be ended first", withConfig({ expiresAt: NOW }), "over", "vanished"],
    ["a stream whose TTL is over must be ended first", withConfig({ ttlSeconds: 100 }), "over", "vanished"],
    ["a topic whose end has begun must be ended first", { topic: { id: "t", step: "ending" } }, "over", "vanished"],
    ["a deleted topic must be ended first", { topic: { id: "t" }, deleted: true }, "over", "vanished"],
    ["a deleted stream that forks read is gone", { deleted: true, forks: FORKS }, "gone", "gone"],
    ["an expired stream that forks read is gone", { ...withConfig({ expiresAt: NOW }), forks: FORKS }, "gone", "gone"],
  ])("%s", (_, meta, creating, comparing) => {
    expect(createRule(viewOf(meta), NOW, create())).toEqual({ outcome: { kind: creating } });
    expect(compareRule(viewOf(meta), NOW, create())).toEqual({ outcome: { kind: comparing } });
  });

  it("comparing with nothing creates nothing", () => {
    expect(compareRule(new RuleView(), NOW, create())).toEqual({ outcome: { kind: "vanished" } });
  });
});

describe("a read of a stream with a TTL of 100 s", () => {
  const ttl = withConfig({ ttlSeconds: 100 });
  it.each<[string, Partial<Meta>, number, boolean]>([
    ["is not stored within a tenth of the TTL", { ...ttl, touchedAt: NOW - 10_000 }, 0, false],
    ["is stored after more than a tenth of the TTL", { ...ttl, touchedAt: NOW - 10_001 }, 0, true],
    ["is not stored soon after an append, which slides the TTL by itself", ttl, NOW - 10_000, false],
    ["is stored when the last append is old", ttl, NOW - 10_001, true],
    ["is not stored once the TTL is over", { ...ttl, touchedAt: NOW - 110_000 }, 0, false],
    ["is not stored for a deleted stream", { ...ttl, touchedAt: NOW - 50_000, deleted: true, forks: FORKS }, 0, false],
    ["counts for an inbox whatever was copied into it", { ...ttl, touchedAt: NOW - 10_001, inbox: true }, NOW, true],
    ["is not stored without a TTL", {}, 0, false],
  ])("%s", (_, meta, at, isStored) => {
    const view = viewOf(meta, { at });
    const before = view.get(metaTable, "")!.touchedAt;
    view.run(touchRule(view, NOW));
    expect(view.get(metaTable, "")!.touchedAt).toBe(isStored ? NOW : before);
  });

  it("is nothing to a stream that does not exist", () => {
    expect(touchRule(new RuleView(), NOW)).toEqual({ outcome: undefined });
  });
});

describe("deleting", () => {
  it("destroys the stream and tells its source and its followers", () => {
    const view = viewOf({ origin, follows: { wakes: "w" } });
    expect(view.run(deleteRule(view, NOW, STREAM_LIMITS))).toEqual({
      kind: "deleted",
      origin,
      follows: { wakes: "w" },
    });
    expect(view.exists).toBe(false);
  });

  it("keeps a stream that forks read, unseen, and has the forks looked at", () => {
    const view = viewOf({ forks: FORKS, follows: { wakes: "w" } });
    const outcome = view.run(deleteRule(view, NOW, STREAM_LIMITS));
    expect(outcome).toEqual({ kind: "kept-for-forks", follows: { wakes: "w" } });
    expect(view.get(metaTable, "")).toMatchObject({ deleted: true, forks: FORKS });
    expect(view.reminder).toBe(NOW + STREAM_LIMITS.forkCheckMs);
    expect(deleteRule(view, NOW, STREAM_LIMITS)).toEqual({ outcome: { kind: "gone" } });
  });

  it("hides a topic until its shards have gone, and has it looked at", () => {
    const view = viewOf({ topic: { id: "t" } });
    const meta = view.get(metaTable, "");
    expect(view.run(deleteRule(view, NOW, STREAM_LIMITS))).toEqual({ kind: "ending", meta });
    expect(view.get(metaTable, "")).toMatchObject({ deleted: true, topic: { id: "t" } });
    expect(view.reminder).toBe(NOW + STREAM_LIMITS.shardCheckMs);
    expect(deleteRule(view, NOW, STREAM_LIMITS)).toEqual({ outcome: { kind: "absent" } });
  });

  it("finds nothing where no stream is, or where its time is over", () => {
    for (const view of [new RuleView(), viewOf(withConfig({ expiresAt: NOW }))]) {
      expect(deleteRule(view, NOW, STREAM_LIMITS)).toEqual({ outcome: { kind: "absent" } });
    }
  });
});

describe("a sweep", () => {
  const aged = { retention: { maxAgeMs: 100_000 } };
  const topic: Partial<Meta> = { topic: { id: "t" } };
  const deleted: Partial<Meta> = { deleted: true, forks: FORKS };
  const sweep = (meta: Partial<Meta>, checkForksAt?: number) => {
    const view = viewOf(meta);
    return { view, outcome: view.run(sweepRule(view, NOW, STREAM_LIMITS, checkForksAt)) };
  };

  it.each<[string, Partial<Meta>, string]>([
    ["ends a stream at its expiry", withConfig({ expiresAt: NOW }), "deleted"],
    ["ends a stream whose TTL is over", { ...withConfig({ ttlSeconds: 100 }), touchedAt: NOW - 110_000 }, "deleted"],
    ["keeps an expired stream that forks read", { ...withConfig({ expiresAt: NOW }), forks: FORKS }, "kept-for-forks"],
    ["ends a deleted stream without forks", { deleted: true }, "deleted"],
    ["hides a topic at its expiry", { ...topic, ...withConfig({ shards: 2, expiresAt: NOW }) }, "ending"],
    ["leaves a topic whose TTL is over to its shards", { ...topic, ...withConfig({ ttlSeconds: 1 }) }, "topic"],
    ["leaves a live topic to its shards", topic, "topic"],
  ])("%s", (_, meta, kind) => {
    const { view, outcome } = sweep(meta);
    expect(outcome.kind).toBe(kind);
    expect(view.exists).toBe(kind !== "deleted");
  });

  it.each<[string, Partial<Meta>, number | undefined, number | null]>([
    ["a stream without an end is forgotten", {}, undefined, null],
    ["an expiry that is ahead is looked at then", withConfig({ expiresAt: NOW + 1 }), undefined, NOW + 1],
    [
      "a TTL that was used is looked at when it is over",
      { ...withConfig({ ttlSeconds: 100 }), touchedAt: NOW },
      undefined,
      NOW + 110_000,
    ],
    ["an age limit is looked at a twentieth later", withConfig(aged), undefined, NOW + 5_000],
    ["forks are looked at when they are due", {}, NOW + 3, NOW + 3],
    ["forks are looked at before a later expiry", withConfig({ expiresAt: NOW + 9 }), NOW + 3, NOW + 3],
    ["an expiry is looked at before later forks", withConfig({ expiresAt: NOW + 1 }), NOW + 3, NOW + 1],
    [
      "a deleted stream is looked at for its forks alone",
      { ...deleted, ...withConfig({ expiresAt: 1 }) },
      NOW + 3,
      NOW + 3,
    ],
  ])("says when to come again: %s", (_, meta, checkForksAt, reminder) => {
    const { view, outcome } = sweep(meta, checkForksAt);
    expect(outcome).toEqual({ kind: "kept" });
    expect(view.reminder).toBe(reminder);
  });

  it("finds nothing where no stream is", () => {
    expect(sweepRule(new RuleView(), NOW, STREAM_LIMITS)).toEqual({ outcome: { kind: "absent" } });
  });

  it("cuts what is too old, but not what is held", () => {
    const view = viewOf(withConfig(aged), { bytes: 7, at: NOW - 100_000 });
    view.with(holdsTable, "", { reader: { generation: 3, seq: 6 } });
    view.run(sweepRule(view, NOW, STREAM_LIMITS));
    expect(view.head.start.seq).toBe(0);
    view.with(holdsTable, "", {});
    view.run(sweepRule(view, NOW, STREAM_LIMITS));
    expect(view.head.start).toEqual(TAIL);
  });
});

describe("a hold", () => {
  const at = (seq: number) => ({ generation: 3, seq });
  const kept = { ...withConfig({ retention: { maxMessages: 1 } }), follows: { fanout: "n" } };
  const HELD = { reader: at(2) };

  it.each<[string, Partial<Meta>, readonly [string, ReturnType<typeof at> | undefined, string?], string, object]>([
    ["a new holder is noted beside the others", kept, ["other", at(4)], "held", { reader: at(2), other: at(4) }],
    ["a holder may move on", kept, ["reader", at(5)], "held", { reader: at(5) }],
    ["a holder may move back", kept, ["reader", at(1)], "held", { reader: at(1) }],
    ["a holder that lets go is forgotten", kept, ["reader", undefined], "released", {}],
    ["letting go of nothing changes nothing", kept, ["other", undefined], "released", HELD],
    ["a holder of another name of the stream is refused", kept, ["fanout", at(4), "old"], "absent", HELD],
    ["a holder that does not follow is refused by name", kept, ["wakes", at(4), "n"], "absent", HELD],
    ["a holder of the right name is noted", kept, ["fanout", at(4), "n"], "held", { reader: at(2), fanout: at(4) }],
    [
      "a stream that is over cannot be held",
      { ...kept, ...withConfig({ expiresAt: NOW }) },
      ["reader", at(3)],
      "absent",
      HELD,
    ],
    ["a deleted stream cannot be held", { ...kept, deleted: true, forks: FORKS }, ["reader", at(3)], "absent", HELD],
    ["a stream without retention is held without a row", {}, ["other", at(4)], "held", HELD],
    ["a stream without retention is let go of without a row", {}, ["reader", undefined], "released", HELD],
  ])("%s", (_, meta, [holder, position, name], outcome, holds) => {
    const view = viewOf(meta).with(holdsTable, "", HELD);
    expect(view.run(holdRule(view, NOW, holder, position, 2, name))).toBe(outcome);
    expect(view.get(holdsTable, "")).toEqual(holds);
  });

  it("is not written again where it stands already", () => {
    const view = viewOf(kept).with(holdsTable, "", HELD);
    expect(holdRule(view, NOW, "reader", at(2), 2)).toEqual({ outcome: "held" });
  });

  it("is refused beyond the limit of holders, while known holders still move", () => {
    const view = viewOf(kept).with(holdsTable, "", HELD);
    expect(holdRule(view, NOW, "other", at(4), 1)).toEqual({ outcome: "too-many" });
    expect(view.run(holdRule(view, NOW, "reader", at(4), 1))).toBe("held");
  });

  it("keeps messages from being cut by later appends, until it moves on", () => {
    const view = viewOf(kept);
    view.run(holdRule(view, NOW, "reader", TAIL, 2));
    const append = () => {
      const input = { payloads: [utf8("x")], contentType: TEXT, close: false };
      view.run(appendRule(view, NOW, input, STREAM_LIMITS.holdBytes));
    };
    for (let i = 0; i < 3; i++) append();
    expect(view.head.start.seq).toBeLessThanOrEqual(TAIL.seq);
    view.run(holdRule(view, NOW, "reader", undefined, 2));
    append();
    expect(view.head.start.seq).toBe(10);
  });
});
