/** The rules of a wake until a client holds it: beginning, attempts, their results. The holder's side is in `claims.test.ts`. */
import { BEGINNING } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import type { RuleView } from "../../../../test/support/rule-view.ts";
import {
  FRESH,
  HELD,
  LIMITS,
  linkOf,
  offset,
  stateOf,
  subscribed,
  TOLD,
  tail,
} from "../../../../test/wakes/subscribed.ts";
import { type Link, linkTable, type Tail, type Wake } from "./state.ts";
import { type Due, dueRule, type Result, resultRule, retryDelay, wakeRule } from "./wake-rules.ts";

describe("a wake", () => {
  const begin = (view: RuleView, tails: readonly Tail[], now = 0, incarnation = "i") =>
    view.run(wakeRule(view, now, { incarnation, fresh: FRESH, tails }, LIMITS));

  it.each([
    [
      "begins when a stream has messages beyond what is acknowledged",
      undefined,
      [tail("a", 5), tail("b", 6)],
      0,
      "woken",
    ],
    ["does not begin when everything is acknowledged", undefined, [tail("a", 5)], 0, "idle"],
    ["does not begin for a stream that is not linked", undefined, [tail("c", 9)], 0, "idle"],
    ["does not begin while another is told", TOLD, [tail("a", 6)], 0, "busy"],
    ["does not begin while another is held", HELD, [tail("a", 6)], 999, "busy"],
    ["begins once the other's lease has ended", HELD, [tail("a", 6)], 1_000, "woken"],
  ] as const)("%s", (_name, wake, tails, now, kind) => {
    const view = subscribed("webhook", wake);
    expect(begin(view, tails, now).kind).toBe(kind);
    expect(view.changes.length > 0).toBe(kind === "woken");
  });

  it("does not begin for an empty stream, whatever its generation is", () => {
    const view = subscribed("webhook");
    view.with(linkTable, "a", { acked: BEGINNING, explicit: true, glob: false });
    expect(begin(view, [{ path: "a", tail: { generation: 9, seq: 0 } }]).kind).toBe("idle");
  });

  it("of a webhook has a secret, a greater generation, and a snapshot of what is pending", () => {
    const view = subscribed("webhook", undefined, { generation: 4 });
    expect(begin(view, [tail("a", 5), tail("b", 6)], 10)).toMatchObject({ kind: "woken" });
    const attempt = { number: 1, nextAt: 210 };
    expect(stateOf(view)).toMatchObject({
      generation: 5,
      wake: { id: "w2", generation: 5, trigger: "b", secret: "s2", tokenUntil: 9_010, attempt },
    });
    expect(linkOf(view, "b").snapshot).toEqual({ generation: 5, offset: offset(6) });
    expect(linkOf(view, "a").snapshot).toBeUndefined();
    expect(view.reminder).toBe(210);
  });

  it("of workers has neither secret nor snapshot before a worker claims it", () => {
    const view = subscribed("pull-wake");
    begin(view, [tail("a", 6)]);
    expect(stateOf(view).wake).toEqual({ id: "w2", generation: 1, trigger: "a", attempt: { number: 1, nextAt: 200 } });
    expect(linkOf(view).snapshot).toBeUndefined();
  });

  it("does not begin for another incarnation of the subscription", () => {
    expect(begin(subscribed("webhook"), [tail("a", 6)], 0, "j")).toEqual({ kind: "absent" });
  });
});

describe("background work", () => {
  const look = (view: RuleView, now: number, due: Partial<Due>) =>
    view.run(dueRule(view, now, { incarnation: "i", why: "time", inFlight: undefined, ...due }, LIMITS));

  it.each<
    readonly [
      string,
      Wake | undefined,
      number,
      number,
      Partial<Due>,
      string,
      Wake["attempt"],
      number | null | undefined,
    ]
  >([
    ["waits before the attempt is due", TOLD, 0, 199, {}, "waiting", { number: 1, nextAt: 200 }, undefined],
    ["attempts again when no result came in time", TOLD, 0, 200, {}, "attempt", { number: 2, nextAt: 400 }, 400],
    [
      "lets an attempt go on that is still under way",
      TOLD,
      0,
      200,
      { inFlight: 1 },
      "waiting",
      { number: 1, nextAt: 400 },
      400,
    ],
    [
      "attempts at once on a first look, because the earlier attempt is lost",
      TOLD,
      0,
      10,
      { why: "first-look" },
      "attempt",
      { number: 2, nextAt: 210 },
      210,
    ],
    [
      "keeps the backoff of failed attempts on a first look",
      TOLD,
      1,
      10,
      { why: "first-look" },
      "waiting",
      { number: 1, nextAt: 200 },
      undefined,
    ],
    [
      "attempts at once when a retry is asked for after a failure",
      TOLD,
      1,
      10,
      { why: "retry" },
      "attempt",
      { number: 2, nextAt: 210 },
      210,
    ],
    [
      "waits when a retry is asked for and nothing has failed",
      TOLD,
      0,
      10,
      { why: "retry" },
      "waiting",
      { number: 1, nextAt: 200 },
      undefined,
    ],
    [
      "sets a reminder again that came too early",
      TOLD,
      0,
      10,
      { why: "swept" },
      "waiting",
      { number: 1, nextAt: 200 },
      200,
    ],
    ["drops a reminder that nothing is left of", undefined, 0, 10, { why: "swept" }, "waiting", undefined, null],
    ["waits for the end of a lease", HELD, 0, 999, {}, "waiting", undefined, undefined],
    ["ends a wake whose lease has ended", HELD, 0, 1_000, {}, "expired", undefined, null],
  ])("%s", (_name, wake, failures, now, due, kind, attempt, reminder) => {
    const view = subscribed("webhook", wake, { failures });
    expect(look(view, now, due).kind).toBe(kind);
    expect(stateOf(view).wake?.attempt).toEqual(attempt);
    expect(view.reminder).toBe(reminder);
    expect(stateOf(view).wake === undefined).toBe(wake === undefined || kind === "expired");
  });

  it("finds no subscription of another incarnation", () => {
    expect(look(subscribed("webhook", TOLD), 200, { incarnation: "j" })).toEqual({ kind: "absent" });
  });
});

describe("the result of an attempt", () => {
  const report = (view: RuleView, now: number, result: Partial<Result>) =>
    view.run(
      resultRule(
        view,
        now,
        { incarnation: "i", generation: 1, attempt: 1, kind: "sent", snapshot: ["a", "b"], random: 0.5, ...result },
        LIMITS,
      ),
    );

  it.each<readonly [string, Wake, Partial<Result>, number]>([
    ["of another incarnation", TOLD, { incarnation: "j" }, 10],
    ["of another generation", TOLD, { generation: 0 }, 10],
    ["of another attempt", TOLD, { attempt: 2 }, 10],
    ["that comes after the end of the lease", HELD, {}, 1_000],
    ["that failed although the wake was acted for", HELD, { kind: "failed" }, 10],
  ])("%s is stale", (_name, wake, result, now) => {
    const view = subscribed("webhook", wake);
    expect(report(view, now, result)).toBe("stale");
    expect(view.changes).toEqual([]);
  });

  it("that was sent starts a webhook's lease and ends the failures", () => {
    const view = subscribed("webhook", TOLD, { failures: 3, status: "failed" });
    expect(report(view, 10, {})).toBe("kept");
    expect(stateOf(view)).toMatchObject({ status: "active", failures: 0, wake: { leaseUntil: 1_010 } });
    expect(stateOf(view).wake!.attempt).toBeUndefined();
    expect(view.reminder).toBe(1_010);
  });

  it("that was sent leaves a lease that a callback has extended before", () => {
    const view = subscribed("webhook", { ...HELD, leaseUntil: 5_000 });
    report(view, 10, {});
    expect(stateOf(view).wake!.leaseUntil).toBe(5_000);
  });

  it("that was sent starts no lease for workers, because none has claimed yet", () => {
    const view = subscribed("pull-wake", TOLD);
    report(view, 10, {});
    expect(stateOf(view).wake!.leaseUntil).toBeUndefined();
    expect(view.reminder).toBeNull();
  });

  it("that failed is tried again after the backoff, under the same number", () => {
    const view = subscribed("webhook", TOLD, { failures: 1 });
    expect(report(view, 10, { kind: "failed" })).toBe("kept");
    const attempt = { number: 1, nextAt: 210 };
    expect(stateOf(view)).toMatchObject({ status: "failed", failures: 2, wake: { attempt } });
    expect(view.reminder).toBe(210);
  });

  it.each<readonly [string, Partial<Link>, string]>([
    ["acknowledges the snapshot", { snapshot: { generation: 1, offset: offset(8) } }, offset(8)],
    ["leaves what is acknowledged beyond the snapshot", { snapshot: { generation: 1, offset: offset(3) } }, offset(5)],
    ["leaves the snapshot of another wake", { snapshot: { generation: 0, offset: offset(8) } }, offset(5)],
    ["leaves a stream without a snapshot", {}, offset(5)],
  ])("that is done ends the wake and %s", (_name, changed, acked) => {
    const view = subscribed("webhook", TOLD);
    view.with(linkTable, "a", { ...linkOf(view), ...changed });
    expect(report(view, 10, { kind: "done" })).toBe("ended");
    expect(linkOf(view).acked).toBe(acked);
    expect(stateOf(view).wake).toBeUndefined();
    expect(view.reminder).toBeNull();
  });

  it.each([
    ["the first failure waits the first delay", 1, 0.5, 100],
    ["each further failure waits twice as long", 3, 0.5, 400],
    ["no failure waits longer than the limit", 9, 0.5, 800],
    ["chance shortens the wait by a fifth at most", 1, 0, 80],
    ["chance lengthens the wait by a fifth at most", 1, 1, 120],
  ])("%s", (_name, failures, random, wanted) => {
    expect(retryDelay(failures, random, LIMITS)).toBeCloseTo(wanted);
  });
});
