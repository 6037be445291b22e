/** A copy on its way into an inbox: when it is taken, what it adds, and what the subscription notes of it. */
import { formatOffset } from "@sluice/protocol";
import { expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { utf8 } from "../core/bytes.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import { Copy } from "./copy.ts";
import { SESSION_LIMITS } from "./defaults.ts";
import { type Asker, copyRule, type Join, joinRule, openRule } from "./session-rules.ts";
import { type Subscription, subscriptionTable } from "./state.ts";

const LIMITS = { ...SESSION_LIMITS, ttlSeconds: 100 };
/** A session ends a tenth later than its TTL says, because a use within that tenth is not stored. */
const END = 110_000;
const ANN: Asker = { subject: "ann", isAdmin: false };
const at = (seq: number) => ({ generation: 1, seq });
const ADDRESSED = { incarnation: "1", epoch: 1 };
const JOIN: Join = { asker: ANN, stream: "a", name: "n", format: "raw", contentType: "text/plain", start: at(10) };

/** A session that follows stream "a" from position 10 on, with these fields of the subscription changed. */
function following(changed: Partial<Subscription> = {}, limits = LIMITS): RuleView {
  const view = new RuleView();
  view.run(joinRule(view, 0, JOIN, limits));
  view.with(subscriptionTable, "a", { ...subscription(view)!, pending: undefined, ...changed });
  return view;
}

const subscription = (view: RuleView) => view.get(subscriptionTable, "a");

const logged = (from: number, to: number): LoggedMessage[] =>
  Array.from({ length: to - from + 1 }, (_, i) => ({ payload: utf8(`m${from + i}`), at: 7, position: at(from + i) }));
/** Messages `from` to `to`, which apply onto the message before the first. */
const copyOf = (from: number, to: number) => part({ prev: at(from - 1), logged: logged(from, to) });
const part = (parts: Partial<ConstructorParameters<typeof Copy>[0]>) =>
  new Copy({ stream: "a", contentType: "text/plain", prev: at(10), logged: [], fanoutSeq: 1, ...parts });
const texts = (view: RuleView) => view.log.map(({ payload }) => new TextDecoder().decode(payload));
const stale = (borrows: boolean) => ({ kind: "stale", borrows });
const applied = (seq: number) => ({ kind: "applied", at: at(seq) });

const rows: readonly [string, Partial<Subscription>, Copy, object, string[]][] = [
  ["that applies onto the last one is taken whole", {}, copyOf(11, 12), applied(12), ["m11", "m12"]],
  ["completes a pending subscription", { pending: true }, copyOf(11, 11), applied(11), ["m11"]],
  ["that overlaps adds only what is missing", {}, copyOf(9, 12), applied(12), ["m11", "m12"]],
  ["that ends where the inbox is changes nothing", {}, copyOf(9, 10), { kind: "duplicate", at: at(10) }, []],
  ["that ends before that changes nothing", {}, copyOf(7, 8), { kind: "duplicate", at: at(10) }, []],
  ["that begins later shows that something is missing", {}, copyOf(12, 13), { kind: "lagging", at: at(10) }, []],
  ["without messages moves the position", {}, Copy.ofNothing("a", at(10), at(15), 1), applied(15), []],
  ["for a left subscription is stale", { left: true }, copyOf(11, 11), stale(false), []],
  ["for a left subscription that borrows says so", { left: true, borrows: true }, copyOf(11, 11), stale(true), []],
  ["for an earlier epoch is stale", { epoch: 2 }, copyOf(11, 11), stale(false), []],
];
it.each(rows)("a copy %s", (_name, changed, copy, wanted, messages) => {
  const view = following(changed);
  expect(view.run(copyRule(view, 1, copy, ADDRESSED))).toEqual(wanted);
  expect(texts(view)).toEqual(messages);
  if ("at" in wanted) expect(subscription(view)!.at).toEqual(wanted.at);
  if (messages.length > 0) expect(subscription(view)!.pending).toBeUndefined();
});

it.each([
  ["of another incarnation", { ...ADDRESSED, incarnation: "0" }, 1],
  ["whose end has passed", ADDRESSED, END],
])("a copy for a session %s is stale and borrows nothing", (_name, addressed, now) => {
  const view = following({ borrows: true });
  expect(view.run(copyRule(view, now, copyOf(11, 11), addressed))).toEqual(stale(false));
  expect(view.log).toEqual([]);
});

it("a copy for a session that never existed is stale", () => {
  const view = new RuleView();
  expect(view.run(copyRule(view, 1, copyOf(11, 11), ADDRESSED))).toEqual(stale(false));
});

it("a copy is no use of the session", () => {
  const view = following();
  view.run(copyRule(view, 50_000, copyOf(11, 11), ADDRESSED));
  expect(view.run(openRule(view, END, ANN, LIMITS))).toEqual({ kind: "over" });
});

it("a copy that lends payloads is noted, and the note stays when later copies lend none", () => {
  const view = following();
  view.run(copyRule(view, 1, copyOf(11, 11).lending([{ position: at(1), bytes: 3 }]), ADDRESSED));
  view.run(copyRule(view, 1, copyOf(12, 12), ADDRESSED));
  expect(subscription(view)!.borrows).toBe(true);
});

it("a copy after a gap notes what was missed, and a second gap widens the note", () => {
  const view = following();
  const gap = (after: number, through: number) => ({ after: at(after), through: at(through) });
  const first = part({ prev: at(10), gap: gap(10, 14), logged: logged(15, 15) });
  expect(view.run(copyRule(view, 1, first, ADDRESSED))).toEqual(applied(15));
  expect(subscription(view)!.missed).toEqual(gap(10, 14));
  view.run(copyRule(view, 1, part({ prev: at(15), gap: gap(15, 20) }), ADDRESSED));
  expect(subscription(view)).toMatchObject({ at: at(20), missed: gap(10, 20) });
});

it("a copy whose gap lies before the inbox's position misses nothing", () => {
  const view = following({ at: at(14) });
  const copy = part({ prev: at(10), gap: { after: at(10), through: at(14) }, logged: logged(15, 15) });
  view.run(copyRule(view, 1, copy, ADDRESSED));
  expect(subscription(view)).toMatchObject({ at: at(15) });
  expect(subscription(view)!.missed).toBeUndefined();
});

it("a copy beyond the kept messages trims the inbox", () => {
  const view = following({}, { ...LIMITS, keptMessages: 20 });
  for (let seq = 11; seq <= 60; seq++) view.run(copyRule(view, 1, copyOf(seq, seq), ADDRESSED));
  expect(texts(view).at(-1)).toBe("m60");
  expect(view.log.length).toBeGreaterThanOrEqual(20);
  expect(view.log.length).toBeLessThan(25);
});

it("the first copy of an inbox is its first message", () => {
  const view = following();
  view.run(copyRule(view, 1, copyOf(11, 11), ADDRESSED));
  expect(view.head.last).toEqual(at(1));
});

it("a copy in an envelope tells its stream, its offset there and its content type", () => {
  const view = following({ format: "envelope" });
  view.run(copyRule(view, 1, copyOf(11, 11), ADDRESSED));
  const wanted = { stream: "a", offset: formatOffset(at(11)), contentType: "text/plain", payload: "m11" };
  expect(JSON.parse(texts(view)[0]!)).toEqual(wanted);
});
