/** The rules of a wake subscription's life and of its links: creating, confirming, deleting, linking, unlinking. */
import { BEGINNING, formatOffset } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import {
  addStreamsRule,
  type Create,
  confirmRule,
  createRule,
  deleteRule,
  known,
  noteRule,
  removeStreamRule,
} from "./link-rules.ts";
import { type Config, type Link, linkTable, metaTable, stateTable, type Tail } from "./state.ts";

const CONFIG: Config = {
  type: "webhook",
  pattern: "logs/*",
  streams: ["a", "b"],
  webhookUrl: "https://h.example/x",
  leaseMs: 30_000,
  description: "d",
};
const offset = (seq: number) => formatOffset({ generation: 1, seq });
const tail = (path: string, seq: number): Tail => ({ path, tail: { generation: 1, seq } });
const create = (input: Partial<Create> = {}): Create => ({
  config: CONFIG,
  base: "http://a",
  incarnation: "i",
  explicit: [tail("a", 3), tail("b", 0)],
  matching: [tail("b", 0), tail("logs/1", 7)],
  ...input,
});
const link = (acked: string, isExplicit: boolean, isGlob: boolean): Link => ({
  acked,
  explicit: isExplicit,
  glob: isGlob,
});

/** A subscription with links to "a" (by name), "b" (by name and by pattern) and "logs/1" (by pattern). */
function created(): RuleView {
  const view = new RuleView();
  view.run(createRule(view, 5, create(), 10));
  return view;
}
const linked = (view: RuleView, path: string) => view.get(linkTable, path);
const links = (view: RuleView) => view.get(stateTable, "")!.links;

describe("creating", () => {
  it("links each stream once, at its tail, and says why it is linked", () => {
    const view = created();
    expect(view.get(metaTable, "")).toEqual({ config: CONFIG, createdAt: 5, incarnation: "i", base: "http://a" });
    expect(linked(view, "a")).toEqual(link(offset(3), true, false));
    expect(linked(view, "b")).toEqual(link(offset(0), true, true));
    expect(linked(view, "logs/1")).toEqual(link(offset(7), false, true));
    expect(links(view)).toBe(3);
  });

  it.each([
    ["refuses more links than the limit", 2, { kind: "too-many-links" }, false],
    ["takes as many links as the limit", 3, { kind: "created" }, true],
  ])("%s", (_name, maxLinks, outcome, isThere) => {
    const view = new RuleView();
    expect(view.run(createRule(view, 5, create(), maxLinks))).toMatchObject(outcome);
    expect(known(view) !== undefined).toBe(isThere);
  });

  it("confirms a subscription that exists, whatever links it would have now", () => {
    const view = created();
    const outcome = view.run(createRule(view, 6, create({ incarnation: "j", matching: [] }), 0));
    expect(outcome).toMatchObject({ kind: "exists", meta: { incarnation: "i", createdAt: 5 } });
    expect(links(view)).toBe(3);
  });
});

describe("a repeated PUT", () => {
  it.each<readonly [string, Partial<Config>]>([
    ["type", { type: "pull-wake" }],
    ["pattern", { pattern: "other/*" }],
    ["streams", { streams: ["a", "c"] }],
    ["number of streams", { streams: ["a"] }],
    ["webhook address", { webhookUrl: "https://h.example/y" }],
    ["wake stream", { wakeStream: "w" }],
    ["lease", { leaseMs: 30_001 }],
    ["description", { description: undefined }],
  ])("with another %s differs", (_name, changed) => {
    const view = created();
    expect(view.run(confirmRule(view, { ...CONFIG, ...changed }, "http://a"))).toEqual({ kind: "differs" });
  });

  it("with the same configuration exists and writes nothing", () => {
    const view = created();
    expect(view.run(confirmRule(view, { ...CONFIG }, "http://a"))).toMatchObject({ kind: "exists" });
    expect(view.changes).toEqual([]);
  });

  it("from another address keeps the new address", () => {
    const view = created();
    expect(view.run(confirmRule(view, CONFIG, "http://b"))).toMatchObject({ meta: { base: "http://b" } });
    expect(view.get(metaTable, "")!.base).toBe("http://b");
  });

  it("of a subscription that does not exist finds nothing", () => {
    expect(confirmRule(new RuleView(), CONFIG, "http://a")).toEqual({ outcome: { kind: "absent" } });
  });
});

it("a deleted subscription is gone, and a second deletion finds nothing", () => {
  const view = created();
  expect(view.run(deleteRule(view))).toBe("deleted");
  expect(known(view)).toBeUndefined();
  expect(view.run(deleteRule(view))).toBe("absent");
});

it("a subscription is known only under its own incarnation", () => {
  const view = created();
  expect(known(view, "i")).toBeDefined();
  expect(known(view, "j")).toBeUndefined();
});

describe("taking note of streams", () => {
  const born = link(BEGINNING, false, true);
  it.each([
    ["links a new stream from its beginning", { link: ["logs/2"] }, 10, "logs/2", born, 4, 0],
    [
      "leaves a stream that the pattern has linked",
      { link: ["logs/1"] },
      10,
      "logs/1",
      link(offset(7), false, true),
      3,
      0,
    ],
    [
      "adds the pattern to a stream that is linked by name",
      { link: ["a"] },
      10,
      "a",
      link(offset(3), true, true),
      3,
      0,
    ],
    ["unlinks a stream that has gone, by name too", { unlink: ["a"] }, 10, "a", undefined, 2, 0],
    ["unlinks a stream once that is named twice", { unlink: ["a", "a"] }, 10, "a", undefined, 2, 0],
    ["ignores a stream that has gone and was never linked", { unlink: ["x"] }, 10, "x", undefined, 3, 0],
    [
      "links a stream that has gone and come again from its beginning",
      { unlink: ["logs/1"], link: ["logs/1"] },
      10,
      "logs/1",
      born,
      3,
      0,
    ],
    ["refuses a new stream beyond the limit", { link: ["logs/2"] }, 3, "logs/2", undefined, 3, 1],
    [
      "takes a new stream into the room that another leaves",
      { unlink: ["a"], link: ["logs/2"] },
      3,
      "logs/2",
      born,
      3,
      0,
    ],
    [
      "adds the pattern at the limit, because that needs no room",
      { link: ["a"] },
      3,
      "a",
      link(offset(3), true, true),
      3,
      0,
    ],
  ] as const)("%s", (_name, note, maxLinks, path, wanted, count, refused) => {
    const view = created();
    const input = { incarnation: "i", unlink: [], link: [], ...note };
    expect(view.run(noteRule(view, 9, input, maxLinks))).toEqual({ kind: "noted", isBusy: false, refused });
    expect(linked(view, path)).toEqual(wanted);
    expect(links(view)).toBe(count);
  });

  it.each([
    ["is busy while a wake is in progress", { leaseUntil: 10 }, true],
    ["is busy while a wake has no lease yet", {}, true],
    ["is not busy once the lease has ended", { leaseUntil: 9 }, false],
  ])("%s", (_name, lease, isBusy) => {
    const view = created();
    const wake = { id: "w", generation: 1, trigger: "a", ...lease };
    view.with(stateTable, "", { ...view.get(stateTable, "")!, wake });
    const note = { incarnation: "i", unlink: [], link: [] };
    expect(view.run(noteRule(view, 9, note, 10))).toMatchObject({ isBusy });
  });

  it("finds no subscription of another incarnation", () => {
    const view = created();
    const note = { incarnation: "j", unlink: ["a"], link: [] };
    expect(view.run(noteRule(view, 9, note, 10))).toEqual({ kind: "absent" });
    expect(linked(view, "a")).toBeDefined();
  });
});

describe("linking by name", () => {
  it.each([
    ["links a stream at its tail", [tail("c", 9)], 10, "added", "c", link(offset(9), true, false), 4],
    [
      "keeps the place of a stream that is linked by name",
      [tail("a", 9)],
      10,
      "added",
      "a",
      link(offset(3), true, false),
      3,
    ],
    [
      "keeps the place of a stream that the pattern has linked",
      [tail("logs/1", 9)],
      10,
      "added",
      "logs/1",
      link(offset(7), true, true),
      3,
    ],
    ["links none when one is beyond the limit", [tail("c", 1), tail("d", 1)], 4, "too-many-links", "c", undefined, 3],
    [
      "needs no room for a stream that the pattern has linked",
      [tail("logs/1", 9)],
      3,
      "added",
      "logs/1",
      link(offset(7), true, true),
      3,
    ],
  ] as const)("%s", (_name, streams, maxLinks, outcome, path, wanted, count) => {
    const view = created();
    expect(view.run(addStreamsRule(view, streams, maxLinks))).toBe(outcome);
    expect(linked(view, path)).toEqual(wanted);
    expect(links(view)).toBe(count);
  });

  it.each([
    ["unlinks a stream that only its name links", "a", undefined, 2],
    ["leaves a stream to the pattern that links it too", "b", link(offset(0), false, true), 3],
    ["leaves a stream that only the pattern links", "logs/1", link(offset(7), false, true), 3],
    ["is done already for a stream that is not linked", "x", undefined, 3],
  ])("taken back, %s", (_name, path, wanted, count) => {
    const view = created();
    expect(view.run(removeStreamRule(view, path))).toBe("removed");
    expect(linked(view, path)).toEqual(wanted);
    expect(links(view)).toBe(count);
  });

  it("finds no subscription that does not exist", () => {
    expect(addStreamsRule(new RuleView(), [tail("a", 1)], 10)).toEqual({ outcome: "absent" });
    expect(removeStreamRule(new RuleView(), "a")).toEqual({ outcome: "absent" });
  });
});
