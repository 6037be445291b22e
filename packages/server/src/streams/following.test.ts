/**
 * The rules by which features follow a stream side by side: each under a name of its own, and, where retention cuts, each with a
 * hold of its own.
 */
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { utf8 } from "../core/bytes.ts";
import { NO_HEAD } from "../engine/contract.ts";
import { appendRule } from "./append.ts";
import { type Follow, followRule, isFollowedAs, keepRule } from "./following.ts";
import { type Follows, holdsTable, type Meta, metaTable } from "./state.ts";

const NOW = 1_000_000;
const TEXT = "text/plain";
const at = (seq: number) => ({ generation: 3, seq });
const TAIL = at(7);
const PLAIN: Meta = { config: { contentType: TEXT }, createdAt: 0, touchedAt: 0, closed: false };
const RETAINED: Partial<Meta> = { config: { contentType: TEXT, retention: { maxMessages: 1 } } };
const FORKS = { count: 1, needAfter: at(0) };

function viewOf(meta: Partial<Meta> = {}): RuleView {
  const view = new RuleView({ ...NO_HEAD, generation: 3, last: TAIL, start: at(0) });
  return view.with(metaTable, "", { ...PLAIN, ...meta });
}

const follow = (view: RuleView, input: Follow) => view.run(followRule(view, NOW, input));
const keep = (view: RuleView, follower: string, name: string, from: ReturnType<typeof at>) =>
  view.run(keepRule(view, NOW, { follower, name, from }));
const append = (view: RuleView) =>
  view.run(appendRule(view, NOW, { payloads: [utf8("x")], contentType: TEXT, close: false }, 1_000));

describe("following a stream", () => {
  it("without a hold gives a name, and retention keeps nothing for the follower", () => {
    const view = viewOf(RETAINED);
    expect(follow(view, { follower: "live", name: "l", holds: false })).toMatchObject({ name: "l", tail: TAIL });
    expect(view.get(holdsTable, "")).toBeUndefined();
    expect(append(view)).toMatchObject({ follows: { live: "l" } });
  });

  it("gives each follower its own name and its own hold, and every append names them all", () => {
    const view = viewOf(RETAINED);
    expect(follow(view, { follower: "fanout", name: "f" })).toMatchObject({ kind: "following", name: "f", tail: TAIL });
    expect(follow(view, { follower: "wakes", name: "w", from: at(4) })).toMatchObject({ name: "w", tail: TAIL });
    expect(view.get(holdsTable, "")).toEqual({ fanout: TAIL, wakes: at(4) });
    expect(append(view)).toMatchObject({ kind: "appended", follows: { fanout: "f", wakes: "w" } });
  });

  it("keeps the name that a follower has already, and leaves the others alone", () => {
    const view = viewOf({ follows: { fanout: "f", wakes: "w" } });
    expect(follow(view, { follower: "wakes", name: "later" })).toMatchObject({ kind: "following", name: "w" });
    expect(followRule(view, NOW, { follower: "wakes", name: "later" }).changes).toEqual([]);
    expect(view.get(metaTable, "")?.follows).toEqual({ fanout: "f", wakes: "w" });
  });

  it("reads a name that an earlier version stored as fan-out's, and keeps it beside new ones", () => {
    const view = viewOf({ follow: "f" });
    expect(append(view)).toMatchObject({ follows: { fanout: "f" } });
    expect(follow(view, { follower: "fanout", name: "later" })).toMatchObject({ name: "f" });
    follow(view, { follower: "wakes", name: "w" });
    const { follow: old, follows } = view.get(metaTable, "")!;
    expect({ old, follows }).toEqual({ old: undefined, follows: { fanout: "f", wakes: "w" } });
  });

  it("tells the tail of the commit from which on appends name the follower", () => {
    const view = viewOf();
    append(view);
    expect(follow(view, { follower: "wakes", name: "w" })).toMatchObject({ tail: at(8) });
  });

  it.each<[string, Partial<Meta>, object]>([
    ["a stream whose time is over is absent", { config: { contentType: TEXT, expiresAt: NOW } }, { kind: "absent" }],
    ["a deleted stream that forks read is gone", { deleted: true, forks: FORKS }, { kind: "gone" }],
    [
      "a topic has no order to follow",
      { config: { contentType: TEXT, shards: 4 }, topic: { id: "t" } },
      { kind: "sharded", shards: 4 },
    ],
  ])("%s, and is not followed", (_, meta, outcome) => {
    expect(followRule(viewOf(meta), NOW, { follower: "wakes", name: "w" })).toEqual({ outcome });
  });

  it("finds nothing to follow where no stream is", () => {
    expect(followRule(new RuleView(), NOW, { follower: "wakes", name: "w" })).toEqual({ outcome: { kind: "absent" } });
  });
});

describe("the hold of a follower", () => {
  const held = () =>
    viewOf({ ...RETAINED, follows: { wakes: "w" } }).with(holdsTable, "", { wakes: at(4), other: at(1) });

  it("does not exist without retention, because nothing is ever cut", () => {
    const view = viewOf();
    follow(view, { follower: "wakes", name: "w", from: at(1) });
    keep(view, "wakes", "w", at(1));
    expect(view.get(holdsTable, "")).toBeUndefined();
  });

  it.each<[string, readonly [string, string, number], Record<string, ReturnType<typeof at>>]>([
    ["moves back to what is needed again", ["wakes", "w", 2], { wakes: at(2), other: at(1) }],
    ["stays where it is for what it covers already", ["wakes", "w", 4], { wakes: at(4), other: at(1) }],
    ["never moves forward by being kept", ["wakes", "w", 6], { wakes: at(4), other: at(1) }],
    ["is not taken under the name of another stream", ["wakes", "old", 2], { wakes: at(4), other: at(1) }],
    ["is not taken by a feature that does not follow", ["fanout", "w", 2], { wakes: at(4), other: at(1) }],
  ])("%s", (_, [follower, name, from], holds) => {
    const view = held();
    keep(view, follower, name, at(from));
    expect(view.get(holdsTable, "")).toEqual(holds);
  });

  it("is taken anew after another node let go of it", () => {
    const view = viewOf({ ...RETAINED, follows: { wakes: "w" } });
    keep(view, "wakes", "w", at(5));
    expect(view.get(holdsTable, "")).toEqual({ wakes: at(5) });
  });

  it.each<[string, Partial<Meta>]>([
    ["over", { config: { ...RETAINED.config!, expiresAt: NOW } }],
    ["deleted", { deleted: true, forks: FORKS }],
  ])("is not taken on a stream that is %s", (_, meta) => {
    const view = viewOf({ ...RETAINED, follows: { wakes: "w" }, ...meta });
    expect(keepRule(view, NOW, { follower: "wakes", name: "w", from: at(5) })).toEqual({
      outcome: undefined,
      changes: [],
    });
  });

  it("is not taken where no stream is", () => {
    const decision = keepRule(new RuleView(), NOW, { follower: "wakes", name: "w", from: at(5) });
    expect(decision).toEqual({ outcome: undefined, changes: [] });
  });

  it("moves back when the follower follows again from an earlier place", () => {
    const view = held();
    follow(view, { follower: "wakes", name: "w", from: at(3) });
    expect(view.get(holdsTable, "")).toEqual({ wakes: at(3), other: at(1) });
  });
});

describe("the stream that a follower knows", () => {
  it.each<[boolean, string, { follows?: Follows; follow?: string }]>([
    [true, "its own name", { follows: { fanout: "n" } }],
    [true, "a name of the old form", { follow: "n" }],
    [false, "another name, of a later stream of the path", { follows: { fanout: "m" } }],
    [false, "the same name of another follower", { follows: { wakes: "n" } }],
    [false, "no name", {}],
  ])("is this one (%s) where the stream stores %s", (isFollowed, _, names) => {
    expect(isFollowedAs({ ...PLAIN, ...names }, "fanout", "n")).toBe(isFollowed);
  });
});
