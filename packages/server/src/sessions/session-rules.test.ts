/** The rules of a session: opening, joining, confirming, leaving, ending. What a copy does is in `copy.test.ts`. */
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { put } from "../engine/draft.ts";
import { jsonTable } from "../engine/table.ts";
import { metaTable } from "../streams/state.ts";
import { SESSION_LIMITS } from "./defaults.ts";
import {
  type Asker,
  confirmRule,
  deleteSessionRule,
  destroyRule,
  dropRule,
  expireRule,
  type Join,
  joinRule,
  leaveRule,
  openRule,
  touchSessionRule,
  undoRule,
  useRule,
} from "./session-rules.ts";
import { type Subscription, sessionTable, subscriptionTable } from "./state.ts";

const LIMITS = { ...SESSION_LIMITS, ttlSeconds: 100, subscriptions: 3, cleanupMs: 60_000, endAgainMs: 5_000 };
/** A session ends a tenth later than its TTL says, because a use within that tenth is not stored. */
const END = 110_000;
const ANN: Asker = { subject: "ann", isAdmin: false };
const BOB: Asker = { subject: "bob", isAdmin: false };
const ADMIN: Asker = { subject: "root", isAdmin: true };
const ANONYMOUS: Asker = { subject: undefined, isAdmin: false };
const at = (seq: number) => ({ generation: 1, seq });
/** The session that `following` makes, and its first subscription. */
const ADDRESSED = { incarnation: "1", epoch: 1 };

const join = (input: Partial<Join> = {}): Join => ({
  asker: ANN,
  stream: "a",
  name: "n",
  format: "raw",
  contentType: "text/plain",
  start: at(10),
  ...input,
});

/** A session of Ann's that follows stream "a" from position 10 on, with these fields of the subscription changed. */
function following(changed: Partial<Subscription> = {}): RuleView {
  const view = new RuleView();
  view.run(joinRule(view, 0, join(), LIMITS));
  const subscription = view.get(subscriptionTable, "a")!;
  view.with(subscriptionTable, "a", { ...subscription, pending: undefined, ...changed });
  return view;
}

const subscription = (view: RuleView) => view.get(subscriptionTable, "a");
const count = (view: RuleView) => view.get(sessionTable, "")?.subscriptions;

describe("opening", () => {
  it("makes a session without an inbox, which ends when its TTL has passed", () => {
    const view = new RuleView();
    const outcome = view.run(openRule(view, 0, ANN, LIMITS));
    expect(outcome).toEqual({ kind: "open", isNew: true, incarnation: "1", expiresAt: 100_000 });
    expect(view.get(metaTable, "")).toMatchObject({ inbox: "none", config: { ttlSeconds: 100 } });
    expect(view.get(sessionTable, "")).toEqual({ owner: "ann", incarnation: "1", epoch: 0, subscriptions: 0 });
  });

  it("reminds at the first whole cleanup interval after the end", () => {
    const view = new RuleView();
    view.run(openRule(view, 0, ANN, LIMITS));
    expect(view.reminder).toBe(120_000);
  });

  it.each([
    [
      "is a use of the owner's session",
      ANN,
      50_000,
      { kind: "open", isNew: false, incarnation: "1", expiresAt: 150_000 },
    ],
    [
      "is a use of the session for an admin",
      ADMIN,
      50_000,
      { kind: "open", isNew: false, incarnation: "1", expiresAt: 150_000 },
    ],
    ["is refused for another client", BOB, 50_000, { kind: "anothers" }],
    ["is refused for an anonymous client when the session has an owner", ANONYMOUS, 50_000, { kind: "anothers" }],
    ["finds the session over once its end has passed", ANN, END, { kind: "over" }],
  ])("%s", (_name, asker, now, wanted) => {
    const view = following();
    expect(view.run(openRule(view, now, asker, LIMITS))).toEqual(wanted);
    expect(view.get(metaTable, "")!.touchedAt).toBe(wanted.kind === "open" ? now : 0);
  });

  it("gives a session that follows an ended one of the same id another incarnation", () => {
    const view = following();
    view.run(deleteSessionRule(view, 1, ANN, LIMITS));
    view.run(destroyRule(view, "1"));
    expect(view.run(openRule(view, 2, ANN, LIMITS))).toMatchObject({ isNew: true, incarnation: "2" });
  });
});

describe("joining", () => {
  it("makes the session, its inbox and a pending subscription when there is no session", () => {
    const view = new RuleView();
    const made = { name: "n", epoch: 1, since: 5, format: "raw", at: at(10), pending: true };
    const outcome = view.run(joinRule(view, 5, join(), LIMITS));
    expect(outcome).toMatchObject({ kind: "joined", isNewSession: true, isNewSubscription: true, incarnation: "1" });
    expect(subscription(view)).toEqual(made);
    expect(view.get(metaTable, "")).toMatchObject({ inbox: true, config: { contentType: "text/plain" } });
  });

  it("gives an opened session its inbox", () => {
    const view = new RuleView();
    view.run(openRule(view, 0, ANN, LIMITS));
    expect(view.run(joinRule(view, 1, join(), LIMITS))).toMatchObject({
      isNewSession: false,
      isNewSubscription: true,
    });
    expect(view.get(metaTable, "")).toMatchObject({ inbox: true, config: { contentType: "text/plain" } });
  });

  it("makes a JSON inbox for envelopes, whatever the stream's type is", () => {
    const view = new RuleView();
    view.run(joinRule(view, 0, join({ format: "envelope" }), LIMITS));
    expect(view.get(metaTable, "")!.config.contentType).toBe("application/json");
  });

  const known = { kind: "joined", isNewSession: false, isNewSubscription: false, expiresAt: 101_000 };
  const anew = { kind: "joined", isNewSession: false, isNewSubscription: true };
  const rows: readonly [string, Partial<Subscription>, Partial<Join>, object, epoch: number][] = [
    ["confirms a subscription that stands", {}, {}, known, 1],
    ["confirms one for an admin", {}, { asker: ADMIN }, known, 1],
    ["begins a subscription anew that was never completed", { pending: true }, {}, anew, 2],
    ["begins a subscription anew that the session has left", { left: true, borrows: true }, {}, anew, 2],
    ["begins a subscription anew when a later stream has the path", {}, { name: "later" }, anew, 2],
    ["adds a subscription to another stream", {}, { stream: "b" }, anew, 1],
    ["ignores parameters when it compares content types", {}, { contentType: "Text/Plain; charset=utf-8" }, known, 1],
    ["refuses another client", {}, { asker: BOB }, { kind: "anothers" }, 1],
    [
      "refuses another format for a subscription that stands",
      { format: "envelope" },
      {},
      { kind: "format-differs" },
      1,
    ],
    [
      "refuses another content type than the inbox has",
      {},
      { contentType: "a/b" },
      { kind: "wrong-type", contentType: "text/plain" },
      1,
    ],
  ];
  it.each(rows)("%s", (_name, changed, input, wanted, epoch) => {
    const view = following(changed);
    expect(view.run(joinRule(view, 1_000, join({ start: at(20), ...input }), LIMITS))).toMatchObject(wanted);
    expect(subscription(view)).toMatchObject({ epoch, at: at(epoch === 1 ? 10 : 20) });
    expect(count(view)).toBe(input.stream === "b" ? 2 : 1);
  });

  it("keeps the note of borrowed payloads when a left subscription begins anew", () => {
    const view = following({ left: true, borrows: true });
    view.run(joinRule(view, 1, join(), LIMITS));
    expect(subscription(view)).toMatchObject({ borrows: true, pending: true });
    expect(subscription(view)!.left).toBeUndefined();
  });

  it("refuses the first stream beyond the limit, and still confirms the others", () => {
    const view = following();
    for (const stream of ["b", "c"]) view.run(joinRule(view, 1, join({ stream }), LIMITS));
    expect(view.run(joinRule(view, 1, join({ stream: "d" }), LIMITS))).toEqual({ kind: "too-many" });
    expect(view.run(joinRule(view, 1, join(), LIMITS))).toMatchObject({ kind: "joined" });
    expect(count(view)).toBe(3);
  });

  it.each([
    ["whose end has passed", false, END],
    ["that is being deleted", true, 2],
  ])("finds a session over %s", (_name, isDeleted, now) => {
    const view = following();
    if (isDeleted) view.run(deleteSessionRule(view, 1, ANN, LIMITS));
    expect(view.run(joinRule(view, now, join(), LIMITS))).toEqual({ kind: "over" });
  });
});

describe("confirming", () => {
  const ended = (borrows: boolean) => ({ kind: "ended", borrows });
  it.each([
    ["completes a pending subscription", { pending: true }, ADDRESSED, "stands"],
    ["changes nothing about one that is complete", {}, ADDRESSED, "stands"],
    ["finds one ended that the session has left", { left: true, borrows: true }, ADDRESSED, ended(true)],
    ["finds one ended that began anew", { epoch: 2 }, ADDRESSED, ended(false)],
    ["finds one ended of an earlier session", { borrows: true }, { ...ADDRESSED, incarnation: "0" }, ended(false)],
  ] as const)("%s", (_name, changed, addressed, wanted) => {
    const view = following(changed);
    expect(view.run(confirmRule(view, "a", addressed))).toEqual(wanted);
    expect(view.changes.length).toBe("pending" in changed ? 1 : 0);
    if (wanted === "stands") expect(subscription(view)!.pending).toBeUndefined();
  });

  it("finds the subscription of a deleted session ended", () => {
    const view = following({ borrows: true });
    view.run(deleteSessionRule(view, 1, ANN, LIMITS));
    expect(view.run(confirmRule(view, "a", ADDRESSED))).toEqual(ended(false));
  });
});

describe("leaving", () => {
  const left = (borrows: boolean) => ({ kind: "left", incarnation: "1", epoch: 1, borrows });
  it.each([
    ["forgets a subscription whose copies borrow nothing", {}, ANN, 1, left(false), undefined, 0],
    [
      "keeps a note of a subscription whose copies borrow",
      { borrows: true, pending: true },
      ANN,
      1,
      left(true),
      { left: true },
      1,
    ],
    ["works for an admin", {}, ADMIN, 1, left(false), undefined, 0],
    [
      "finds nothing when the session has left already",
      { left: true, borrows: true },
      ANN,
      1,
      { kind: "not-subscribed" },
      {},
      1,
    ],
    ["finds no session for another client", {}, BOB, 1, { kind: "absent" }, {}, 1],
    ["finds no session once its end has passed", {}, ANN, END, { kind: "absent" }, {}, 1],
  ] as const)("%s", (_name, changed, asker, now, wanted, row, subscriptions) => {
    const view = following(changed);
    expect(view.run(leaveRule(view, now, "a", asker))).toEqual(wanted);
    if (row === undefined) expect(subscription(view)).toBeUndefined();
    else expect(subscription(view)).toMatchObject(row);
    expect(count(view)).toBe(subscriptions);
  });

  it("a stream that the session does not follow finds nothing", () => {
    const view = following();
    expect(view.run(leaveRule(view, 1, "b", ANN))).toEqual({ kind: "not-subscribed" });
  });
});

describe("a stream that has gone", () => {
  it.each([
    ["ends the subscription", {}, "n", ADDRESSED, false, undefined],
    ["leaves a note while copies borrow", { borrows: true }, "n", ADDRESSED, true, { left: true }],
    ["leaves the subscription to a later stream of its path", {}, "later", ADDRESSED, false, { epoch: 1 }],
    ["leaves a later subscription", { epoch: 2 }, "n", ADDRESSED, false, { epoch: 2 }],
    ["leaves a later session", { borrows: true }, "n", { ...ADDRESSED, incarnation: "0" }, false, { epoch: 1 }],
  ] as const)("%s", (_name, changed, name, addressed, borrows, row) => {
    const view = following(changed);
    expect(view.run(dropRule(view, "a", name, addressed))).toEqual({ borrows });
    if (row === undefined) expect([subscription(view), count(view)]).toEqual([undefined, 0]);
    else expect(subscription(view)).toMatchObject(row);
  });
});

describe("undoing a subscription", () => {
  it.each([
    ["removes the session that was made for it", {}, [], true, false, undefined],
    ["leaves a session that was there before", {}, [], false, true, 0],
    ["leaves a session that has got another subscription meanwhile", {}, ["b"], true, true, 1],
    ["leaves a later subscription alone", { epoch: 2 }, [], true, true, 1],
  ] as const)("%s", (_name, changed, others, withSession, exists, subscriptions) => {
    const view = following(changed);
    for (const stream of others) view.run(joinRule(view, 1, join({ stream }), LIMITS));
    view.run(undoRule(view, "a", ADDRESSED, withSession));
    expect(view.exists).toBe(exists);
    expect(count(view)).toBe(subscriptions);
  });
});

describe("the end", () => {
  it.each([
    ["a use by the owner moves it", ANN, 50_000, { expiresAt: 150_000 }],
    ["a use by an admin moves it", ADMIN, 50_000, { expiresAt: 150_000 }],
    ["another client cannot move it", BOB, 50_000, undefined],
    ["a use cannot move it once it has passed", ANN, END, undefined],
  ])("%s", (_name, asker, now, wanted) => {
    const view = following();
    expect(view.run(touchSessionRule(view, now, asker))).toEqual(wanted);
    expect(view.get(metaTable, "")!.touchedAt).toBe(wanted === undefined ? 0 : now);
  });

  it.each([
    ["a deletion by the owner begins it", ANN, 1, "ending"],
    ["a deletion by an admin begins it", ADMIN, 1, "ending"],
    ["another client finds no session to delete", BOB, 1, "absent"],
    ["a deletion finds no session once its end has passed", ANN, END, "absent"],
  ])("%s", (_name, asker, now, kind) => {
    const view = following();
    expect(view.run(deleteSessionRule(view, now, asker, LIMITS)).kind).toBe(kind);
    expect(view.get(metaTable, "")!.deleted).toBe(kind === "ending" ? true : undefined);
    expect(view.reminder).toBe(kind === "ending" ? now + 5_000 : 120_000);
  });

  it("a second deletion finds no session, and the sweep takes up the first one again", () => {
    const view = following();
    view.run(deleteSessionRule(view, 1, ANN, LIMITS));
    expect(view.run(deleteSessionRule(view, 2, ANN, LIMITS))).toEqual({ kind: "absent" });
    expect(view.run(expireRule(view, 3, LIMITS))).toEqual({ kind: "ending", incarnation: "1" });
    expect(view.reminder).toBe(5_003);
  });

  it("the sweep keeps a session that was used, and looks again after its new end", () => {
    const view = following();
    view.run(touchSessionRule(view, 50_000, ANN));
    expect(view.run(expireRule(view, END, LIMITS))).toEqual({ kind: "kept" });
    expect(view.reminder).toBe(180_000);
  });

  it("the sweep begins it once its time has passed, and not a millisecond before", () => {
    const view = following();
    expect(view.run(expireRule(view, END - 1, LIMITS))).toEqual({ kind: "kept" });
    expect(view.run(expireRule(view, END, LIMITS))).toEqual({ kind: "ending", incarnation: "1" });
  });

  it("the sweep finds nothing where no session is", () => {
    expect(expireRule(new RuleView(), 1, LIMITS)).toEqual({ outcome: { kind: "absent" } });
  });

  it.each([
    ["destroys a deleted session", "1", true, false],
    ["leaves a later session of the same id", "0", true, true],
    ["leaves a session that is not deleted", "1", false, true],
  ])("the last step %s", (_name, incarnation, isDeleted, exists) => {
    const view = following();
    if (isDeleted) view.run(deleteSessionRule(view, 1, ANN, LIMITS));
    expect(view.run(destroyRule(view, incarnation))).toBe(!exists);
    expect(view.exists).toBe(exists);
  });
});

describe("a rule of another feature on a session", () => {
  const rows = jsonTable<string>("other");
  const write = () => ({ outcome: "written", changes: [put(rows, "", "x")] });
  const look = () => ({ outcome: "seen" });
  const touchedAt = (view: RuleView) => view.get(metaTable, "")!.touchedAt;

  it("runs for the owner and for an admin, and for no other caller", () => {
    for (const [asker, outcome] of [
      [ANN, "written"],
      [ADMIN, "written"],
      [BOB, undefined],
      [ANONYMOUS, undefined],
    ] as const) {
      const view = following();
      expect(view.run(useRule(view, 1, asker, write))?.outcome).toBe(outcome);
      expect(view.get(rows, "")).toBe(outcome === undefined ? undefined : "x");
    }
  });

  it("does not run on a session that is over", () => {
    const view = following();
    expect(view.run(useRule(view, END, ANN, write))).toBeUndefined();
    expect(view.run(useRule(view, END, "server", write))).toBeUndefined();
  });

  it("counts as a use, which is stored with its changes", () => {
    const view = following();
    expect(view.run(useRule(view, 5, ANN, write))).toEqual({
      outcome: "written",
      owner: "ann",
      incarnation: "1",
      expiresAt: 100_005,
    });
    expect(touchedAt(view)).toBe(5);
  });

  it("without changes stores the use only when it moves the end by more than a tenth", () => {
    const view = following();
    expect(view.run(useRule(view, 10_000, ANN, look))).toMatchObject({ outcome: "seen", expiresAt: 100_000 });
    expect(view.changes).toEqual([]);
    expect(view.run(useRule(view, 10_001, ANN, look))).toMatchObject({ expiresAt: 110_001 });
    expect(touchedAt(view)).toBe(10_001);
  });

  it("of the server itself changes any session and prolongs none", () => {
    const view = following();
    expect(view.run(useRule(view, 50_000, "server", write))).toMatchObject({ outcome: "written", expiresAt: 100_000 });
    expect([touchedAt(view), view.get(rows, "")]).toEqual([0, "x"]);
  });
});
