/** The rules of presence: which connection shows a member, and which may remove it. */
import { expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { countTable, hideRule, memberTable, type Shown, showRule, sweptRule } from "./presence-rules.ts";

const LIMITS = { members: 2, sweepMs: 60 };
const one = (session: string, some: Partial<Shown> = {}): Shown => ({
  session,
  node: "n",
  nonce: "a",
  connection: 1,
  ...some,
});
const show = (view: RuleView, shown: Shown, now = 10) => view.run(showRule(view, now, shown, LIMITS));
const hide = (view: RuleView, session: string, nonce = "a") => view.run(hideRule(view, [{ session, nonce }]));
const count = (view: RuleView) => view.get(countTable, "")?.count;

it("shows a member once, since it came first, with its newest state", () => {
  const view = new RuleView();
  expect(show(view, one("s", { state: 1 }))).toBe("shown");
  expect(view.reminder).toBe(70);
  expect(show(view, one("s", { state: 2 }), 20)).toBe("shown");
  expect(view.get(memberTable, "s")).toMatchObject({ since: 10, state: 2 });
  expect(count(view)).toBe(1);
});

it("a newer connection takes the member over, and an older one neither takes it back nor removes it", () => {
  const view = new RuleView();
  show(view, one("s"));
  expect(show(view, one("s", { nonce: "b", connection: 2, node: "m" }), 30)).toBe("shown");
  expect(show(view, one("s"))).toBe("stale");
  hide(view, "s", "a");
  expect(view.get(memberTable, "s")).toMatchObject({ nonce: "b", node: "m", since: 10 });
});

it("shows no more members than the limit", () => {
  const view = new RuleView();
  for (const session of ["s", "t"]) show(view, one(session));
  expect(show(view, one("u"))).toBe("full");
  expect(show(view, one("t", { state: 1 }))).toBe("shown");
  hide(view, "s");
  expect(show(view, one("u"))).toBe("shown");
  expect(count(view)).toBe(2);
});

it("goes with its last member, and is looked at again while there is one", () => {
  const view = new RuleView();
  show(view, one("s"));
  view.run(sweptRule(view, 100, LIMITS));
  expect(view.reminder).toBe(160);
  hide(view, "s");
  hide(view, "s");
  expect(view.exists).toBe(false);
});
