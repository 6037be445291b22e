/** Which subscriptions a hub parks when it follows too many. */
import { expect, it } from "vitest";
import { ActiveSubscriptions } from "./active.ts";
import type { Followed } from "./tab.ts";

function setUp(max: number) {
  const parked: string[] = [];
  const active = new ActiveSubscriptions(max, () => {});
  const all = new Map<string, { position: object }>();
  const add = (...names: string[]) => {
    for (const streamId of names) {
      const follower = { position: {} };
      all.set(streamId, follower);
      const tab = { park: (one: Followed) => void parked.push(one.streamId) };
      active.add({ tab, streamId, follower, seen: undefined } as unknown as Followed);
    }
  };
  /** Messages have come for these streams. */
  const move = (...names: string[]) => {
    for (const name of names) all.get(name)!.position = {};
  };
  return { active, parked, add, move };
}

it("parks none up to the bound, and then the one that was added first", () => {
  const { active, parked, add } = setUp(3);
  add("a", "b", "c");
  expect(parked).toEqual([]);
  add("d");
  expect([parked, active.size]).toEqual([["a"], 3]);
});

it("parks a subscription without messages since the last look, and keeps those that had some", () => {
  const { parked, add, move } = setUp(3);
  add("a", "b", "c", "d");
  move("b", "d");
  add("e");
  expect(parked).toEqual(["a", "c"]);
});

it("finds a place in bounded time when all are in use", () => {
  const { active, parked, add, move } = setUp(100);
  const names = Array.from({ length: 100 }, (_, i) => `s${i}`);
  add(...names);
  add("first");
  move(...names);
  add("second");
  expect([parked.length, active.size]).toEqual([2, 100]);
});
