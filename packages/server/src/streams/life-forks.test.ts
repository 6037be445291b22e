/** The source's side of a fork: what it notes before the fork exists, what it keeps for it, and how it goes with the last one. */
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { utf8 } from "../core/bytes.ts";
import { type Head, NO_HEAD } from "../engine/contract.ts";
import { appendRule } from "./append.ts";
import { STREAM_LIMITS } from "./defaults.ts";
import { type AddFork, addForkRule, deleteRule, dropForkRule, watchForksRule } from "./life.ts";
import { forkTable, type Meta, metaTable } from "./state.ts";

const NOW = 1_000_000;
const TEXT = "text/plain";
const TAIL = { generation: 3, seq: 7 };
const START = { generation: 3, seq: 2 };
const PLAIN: Meta = { config: { contentType: TEXT }, createdAt: 0, touchedAt: 0, closed: false };
const CHECK = NOW + STREAM_LIMITS.forkCheckMs;

function viewOf(meta: Partial<Meta> = {}, head: Partial<Head> = {}): RuleView {
  const view = new RuleView({ ...NO_HEAD, generation: 3, last: TAIL, start: START, ...head });
  return view.with(metaTable, "", { ...PLAIN, ...meta });
}

const FORK: AddFork = { path: "f", id: "i", generation: 3, through: TAIL, contentType: TEXT };
const expiresAt = (at: number): Partial<Meta> => ({ config: { contentType: TEXT, expiresAt: at } });
const add = (view: RuleView, fork: Partial<AddFork> = {}) =>
  view.run(addForkRule(view, NOW, { ...FORK, ...fork }, STREAM_LIMITS));
const drop = (view: RuleView, id = "i") => view.run(dropForkRule(view, NOW, id, STREAM_LIMITS));

describe("noting a fork", () => {
  it("writes its row, counts it, and remembers from where on the log is needed", () => {
    const view = viewOf();
    expect(add(view)).toEqual({ kind: "added" });
    expect(view.get(forkTable, "i")).toEqual({ path: "f", since: NOW });
    expect(view.get(metaTable, "")?.forks).toEqual({ count: 1, needAfter: START });
    expect(view.reminder).toBe(CHECK);
  });

  it("keeps for a second fork what the first one needs", () => {
    const view = viewOf({ forks: { count: 1, needAfter: { generation: 3, seq: 1 } } });
    add(view, { id: "j" });
    expect(view.get(metaTable, "")?.forks).toEqual({ count: 2, needAfter: { generation: 3, seq: 1 } });
  });

  it("does not put off the end of the source", () => {
    const view = viewOf(expiresAt(NOW + 1));
    add(view);
    expect(view.reminder).toBe(NOW + 1);
  });

  it.each<[string, Partial<Meta>, Partial<AddFork>, string]>([
    ["a source whose time is over is absent", expiresAt(NOW), {}, "absent"],
    ["a deleted source is gone", { deleted: true, forks: { count: 1, needAfter: START } }, {}, "gone"],
    ["another content type is refused", {}, { contentType: "text/html" }, "wrong-type"],
    ["parameters of the content type do not count", {}, { contentType: "Text/Plain; v=1" }, "added"],
    ["a source whose generation has risen since is to be read again", {}, { generation: 2 }, "changed"],
    ["a place beyond the tail is ahead", {}, { through: { generation: 3, seq: 8 } }, "ahead"],
  ])("%s", (_, meta, fork, kind) => {
    const view = viewOf(meta);
    expect(add(view, fork)).toEqual({ kind });
    expect(view.get(forkTable, "i") !== undefined).toBe(kind === "added");
  });

  it("finds no source where none is", () => {
    expect(addForkRule(new RuleView(), NOW, FORK, STREAM_LIMITS)).toEqual({ outcome: { kind: "absent" } });
  });

  it("keeps from retention what the fork reads, until the fork goes", () => {
    const view = viewOf({ config: { contentType: TEXT, retention: { maxMessages: 1 } } });
    const append = () => {
      const input = { payloads: [utf8("x")], contentType: TEXT, close: false };
      view.run(appendRule(view, NOW, input, STREAM_LIMITS.holdBytes));
    };
    add(view);
    for (let i = 0; i < 3; i++) append();
    expect(view.head.start).toEqual(START);
    drop(view);
    append();
    expect(view.head.start.seq).toBe(10);
  });
});

describe("a fork that goes", () => {
  it("is taken off its source, which lives on", () => {
    const view = viewOf();
    add(view);
    add(view, { id: "j" });
    expect(drop(view)).toEqual({ kind: "kept" });
    expect(view.get(forkTable, "i")).toBeUndefined();
    expect(view.get(metaTable, "")?.forks).toEqual({ count: 1, needAfter: START });
    expect(drop(view, "j")).toEqual({ kind: "kept" });
    expect(view.get(metaTable, "")?.forks).toBeUndefined();
  });

  it("takes a deleted source with it when it is the last one, and tells whose fork that was", () => {
    const origin = { source: "s", askedSubOffset: 0, id: "o", lineage: [] };
    const view = viewOf({ origin });
    add(view);
    add(view, { id: "j" });
    view.run(deleteRule(view, NOW, STREAM_LIMITS));
    expect(drop(view)).toEqual({ kind: "kept" });
    expect(view.exists).toBe(true);
    expect(drop(view, "j")).toMatchObject({ kind: "deleted", origin });
    expect(view.exists).toBe(false);
  });

  it("is counted once, however often it is said to go", () => {
    const view = viewOf();
    add(view);
    add(view, { id: "j" });
    drop(view);
    expect(dropForkRule(view, NOW, "i", STREAM_LIMITS)).toEqual({ outcome: { kind: "kept" } });
    expect(view.get(metaTable, "")?.forks?.count).toBe(1);
    expect(dropForkRule(new RuleView(), NOW, "i", STREAM_LIMITS)).toEqual({ outcome: { kind: "kept" } });
  });
});

describe("a fork that is about to go", () => {
  it.each<[string, Partial<Meta>, number]>([
    ["has its source look at its forks soon", {}, CHECK],
    ["does not put off the end of its source", expiresAt(NOW + 1), NOW + 1],
    ["is looked for before a later end of its source", expiresAt(CHECK + 1), CHECK],
    ["has a deleted source look too, whatever its end was", { deleted: true, ...expiresAt(1) }, CHECK],
  ])("%s", (_, meta, reminder) => {
    const view = viewOf(meta);
    view.run(watchForksRule(view, NOW, STREAM_LIMITS));
    expect(view.reminder).toBe(reminder);
  });

  it("asks nothing of a source that has gone", () => {
    expect(watchForksRule(new RuleView(), NOW, STREAM_LIMITS)).toEqual({ outcome: undefined });
  });
});
