/** The rules of what a tab follows: epochs, pointers, connections and tokens. */
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import {
  connectRule,
  heartbeatRule,
  type Processed,
  renewRule,
  type Subscribe,
  subscribeRule,
  unsubscribeRule,
} from "./pointer-rules.ts";
import { liveTable, pointerTable } from "./state.ts";

const at = (seq: number, generation = 1) => ({ generation, seq });
const NOW = 1_000;

const subscribe = (view: RuleView, input: Partial<Subscribe> = {}) =>
  view.run(subscribeRule(view, NOW, { stream: "a", name: "n", tail: at(10), max: 3, ...input }));
const unsubscribe = (view: RuleView, name?: string) => view.run(unsubscribeRule(view, "a", { name }));
const say = (view: RuleView, ...words: Partial<Processed>[]) =>
  view.run(
    heartbeatRule(
      view,
      words.map((word) => ({ stream: "a", at: at(10), epoch: undefined, ...word })),
    ),
  );
const pointer = (view: RuleView, stream = "a") => view.get(pointerTable, stream);
const live = (view: RuleView) => view.get(liveTable, "");

/** A session that follows "a" from position 10 on, in epoch 1. */
function following(): RuleView {
  const view = new RuleView();
  subscribe(view);
  return view;
}

describe("subscribing", () => {
  it("stores the pointer at the tail of that moment, under the first epoch", () => {
    const view = new RuleView();
    expect(subscribe(view)).toMatchObject({ kind: "subscribed", isNew: true, pointer: { epoch: 1, at: at(10) } });
    expect(pointer(view)).toEqual({ epoch: 1, name: "n", at: at(10), since: NOW, asked: 1 });
    expect(live(view)).toEqual({ version: 1, pointers: 1, connections: 0 });
  });

  it("again keeps pointer and epoch, and tells the hub that the subscription is in use", () => {
    const view = following();
    const again = subscribe(view, { tail: at(30) });
    expect(again).toMatchObject({ isNew: false, pointer: { epoch: 1, at: at(10), asked: 2 } });
    expect(live(view)).toMatchObject({ version: 2, pointers: 1 });
  });

  it("after unsubscribing raises the epoch and starts at the tail of that moment", () => {
    const view = following();
    expect(unsubscribe(view)).toBe(1);
    expect(pointer(view)).toBeUndefined();
    expect(subscribe(view, { tail: at(30) })).toMatchObject({ isNew: true, pointer: { epoch: 3, at: at(30) } });
    expect(live(view)).toMatchObject({ version: 3, pointers: 1 });
  });

  it("to a later stream at the same path replaces the pointer under a higher epoch", () => {
    const view = following();
    const later = subscribe(view, { name: "m", tail: at(0, 2) });
    expect(later).toMatchObject({ isNew: true, pointer: { epoch: 2, name: "m", at: at(0, 2) } });
    expect(live(view)).toMatchObject({ pointers: 1 });
  });

  it("is refused beyond the limit, but a known stream is not", () => {
    const view = following();
    for (const stream of ["b", "c"]) subscribe(view, { stream });
    expect(subscribe(view, { stream: "d" })).toEqual({ kind: "too-many" });
    expect(subscribe(view)).toMatchObject({ kind: "subscribed" });
    expect(live(view)).toMatchObject({ pointers: 3 });
  });
});

describe("unsubscribing", () => {
  it("twice changes nothing the second time", () => {
    const view = following();
    unsubscribe(view);
    expect(unsubscribe(view)).toBeUndefined();
    expect(live(view)).toEqual({ version: 2, pointers: 0, connections: 0 });
  });

  it("for a stream that is gone leaves a pointer into a later stream at the same path", () => {
    const view = following();
    expect(unsubscribe(view, "earlier")).toBeUndefined();
    expect(pointer(view)).toBeDefined();
    expect(unsubscribe(view, "n")).toBe(1);
  });
});

it("unsubscribing with an epoch ends that subscription and no later one", () => {
  const view = following();
  unsubscribe(view);
  subscribe(view);
  expect(view.run(unsubscribeRule(view, "a", { epoch: 1 }))).toBeUndefined();
  expect(view.run(unsubscribeRule(view, "a", { epoch: 3 }))).toBe(3);
});

describe("a heartbeat", () => {
  it.each([
    ["ahead of the pointer moves it", { at: at(11) }, 11],
    ["of the right epoch moves it", { at: at(11), epoch: 1 }, 11],
    ["at the pointer is ignored", { at: at(10) }, 10],
    ["behind the pointer is ignored", { at: at(9) }, 10],
    ["of an earlier epoch is ignored", { at: at(11), epoch: 0 }, 10],
    ["of a later epoch is ignored", { at: at(11), epoch: 2 }, 10],
  ])("%s", (_, word, seq) => {
    const view = following();
    expect(say(view, word)).toBe(seq === 10 ? 0 : 1);
    expect(pointer(view)!.at).toEqual(at(seq));
    expect(pointer(view)!.epoch).toBe(1);
  });

  it("for a stream that the session does not follow is ignored", () => {
    const view = following();
    expect(say(view, { stream: "z", at: at(99) })).toBe(0);
    expect(view.changes).toEqual([]);
  });

  it("moves all its pointers in one commit, each to the furthest word, and leaves the version alone", () => {
    const view = following();
    subscribe(view, { stream: "b" });
    const before = live(view);
    expect(say(view, { at: at(12) }, { at: at(15) }, { at: at(13) }, { stream: "b", at: at(20) })).toBe(2);
    expect([pointer(view)!.at, pointer(view, "b")!.at]).toEqual([at(15), at(20)]);
    expect(view.changes).toHaveLength(2);
    expect(live(view)).toEqual(before);
  });

  it("that comes late, after unsubscribing and subscribing again, resurrects nothing", () => {
    const view = following();
    unsubscribe(view);
    subscribe(view, { tail: at(30) });
    expect(say(view, { at: at(40), epoch: 1 })).toBe(0);
    expect(pointer(view)!.at).toEqual(at(30));
  });
});

describe("a connection", () => {
  it("leaves its nonce, which replaces the one before, and changes no subscription", () => {
    const view = following();
    view.run(connectRule(view, "first"));
    expect(view.run(connectRule(view, "second"))).toMatchObject({ nonce: "second", version: 1 });
    expect(live(view)).toEqual({ version: 1, pointers: 1, connections: 2, nonce: "second" });
  });

  it("may stay as long as the newest token lives, and an older token shortens nothing", () => {
    const view = following();
    view.run(renewRule(view, 500));
    view.run(renewRule(view, 400));
    expect(live(view)).toMatchObject({ tokenUntilMs: 500 });
  });
});
