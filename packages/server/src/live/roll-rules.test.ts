/** The rules of a stream's roll: who is on it, how many, and which removals it believes. */
import { expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { checkedRule, type Enrolled, enrollRule, strikeRule } from "./roll-rules.ts";
import { rollTable, subscriberTable } from "./state.ts";

const NOW = 1_000;
const RECONCILE_MS = 60;
const one = (session: string, some: Partial<Enrolled> = {}): Enrolled => ({
  session,
  incarnation: "1",
  epoch: 1,
  ...some,
});
const enroll = (view: RuleView, enrolled: Enrolled) => view.run(enrollRule(view, NOW, enrolled, RECONCILE_MS));
const strike = (view: RuleView, ...ended: Enrolled[]) => view.run(strikeRule(view, ended));
const row = (view: RuleView, session: string) => view.get(subscriberTable, session);
const count = (view: RuleView) => view.get(rollTable, "")?.count;

function rollOf(...sessions: string[]): RuleView {
  const view = new RuleView();
  for (const session of sessions) enroll(view, one(session));
  return view;
}

it("counts each session once, however often it subscribes", () => {
  const view = rollOf("a", "b");
  expect(enroll(view, one("a"))).toBe(2);
  expect(view.changes).toEqual([]);
  expect(enroll(view, one("a", { epoch: 4 }))).toBe(2);
  expect(row(view, "a")).toEqual({ incarnation: "1", epoch: 4 });
  expect(count(view)).toBe(2);
});

it("is reconciled for the first time after the interval", () => {
  expect(rollOf("a", "b").reminder).toBe(NOW + RECONCILE_MS);
});

it("does not go back to an earlier epoch, but takes over a later session of the same id", () => {
  const view = rollOf("a");
  enroll(view, one("a", { epoch: 4 }));
  enroll(view, one("a", { epoch: 2 }));
  expect(row(view, "a")).toEqual({ incarnation: "1", epoch: 4 });
  enroll(view, one("a", { incarnation: "2" }));
  expect(row(view, "a")).toEqual({ incarnation: "2", epoch: 1 });
});

it("strikes a subscription once, and the last one takes the roll with it", () => {
  const view = rollOf("a", "b");
  expect(strike(view, one("a"))).toBe(1);
  expect(strike(view, one("a"))).toBe(0);
  expect(count(view)).toBe(1);
  expect(strike(view, one("b"))).toBe(1);
  expect(view.exists).toBe(false);
  expect(strike(view, one("b"))).toBe(0);
});

it("strikes several in one commit", () => {
  const view = rollOf("a", "b", "c");
  expect(strike(view, one("a"), one("z"), one("c"))).toBe(2);
  expect([count(view), row(view, "a"), row(view, "b") !== undefined]).toEqual([1, undefined, true]);
});

it("a late removal strikes neither a newer subscription nor a later session", () => {
  const view = rollOf("a", "b");
  enroll(view, one("a", { epoch: 5 }));
  enroll(view, one("b", { incarnation: "2" }));
  expect(strike(view, one("a", { epoch: 4 }), one("b", { epoch: 9 }))).toBe(0);
  expect(count(view)).toBe(2);
});

it("notes how far the reconciliation has come, and removes a reminder without a roll", () => {
  const view = rollOf("a");
  view.run(checkedRule(view, "a", 5_000));
  expect(view.get(rollTable, "")).toEqual({ count: 1, checked: "a" });
  expect(view.reminder).toBe(5_000);
  const ghost = new RuleView();
  ghost.exists = true;
  ghost.run(checkedRule(ghost, "", 0));
  expect(ghost.exists).toBe(false);
});
