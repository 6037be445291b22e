/** The rules of a stream's registry: subscribers, the cursor, laggards, departed borrowers, the version, lent payloads. */
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { utf8 } from "../core/bytes.ts";
import {
  type AddSubscriber,
  type Advance,
  addRule,
  advanceRule,
  caughtUpRule,
  lendRule,
  type RemoveSubscriber,
  remindRule,
  removeRule,
  trimRule,
} from "./registry-rules.ts";
import { laggardTable, type Registry, registryTable, subscriberTable } from "./state.ts";

const at = (seq: number) => ({ generation: 1, seq });
const ONE = { incarnation: "1", epoch: 1 };

const subscriber = (input: Partial<AddSubscriber> = {}): AddSubscriber => ({
  ...ONE,
  session: "s",
  name: "n",
  start: at(10),
  remindAtMs: null,
  ...input,
});
const leaver = (input: Partial<RemoveSubscriber> = {}): RemoveSubscriber => ({
  ...ONE,
  session: "s",
  keepsBorrowing: false,
  ...input,
});

/** A registry at cursor 10 with session "s", after the given steps. */
function registered(...steps: readonly ((view: RuleView) => void)[]): RuleView {
  const view = new RuleView();
  view.run(addRule(view, 0, subscriber()));
  for (const step of steps) step(view);
  return view;
}
const adding = (input: Partial<AddSubscriber>) => (view: RuleView) =>
  void view.run(addRule(view, 0, subscriber(input)));
const removing = (input: Partial<RemoveSubscriber>) => (view: RuleView) =>
  void view.run(removeRule(view, [leaver(input)]));
const advancing =
  (to: number, ...lagging: readonly string[]) =>
  (view: RuleView) =>
    void view.run(advanceRule(view, advance(view, { to: at(to), laggards: lagging.map((session) => lags(session)) })));
const lags = (session: string, who = ONE) => ({ session, ...who, at: at(10) });
function advance(view: RuleView, input: Partial<Advance> = {}): Advance {
  return { name: "n", version: registry(view).version, to: at(20), laggards: [], ...input };
}

const registry = (view: RuleView): Registry => view.get(registryTable, "")!;
const counts = (view: RuleView) => {
  const { count, laggards, departedBorrowers, version } = registry(view);
  return { count, laggards, departedBorrowers, version: version.seq };
};

describe("adding a subscriber", () => {
  it("makes a registry whose cursor is where the subscriber starts", () => {
    const view = registered();
    expect(registry(view)).toEqual({
      name: "n",
      cursor: at(10),
      seq: 0,
      version: at(1),
      count: 1,
      laggards: 0,
      departedBorrowers: 0,
    });
    expect(view.get(subscriberTable, "s")).toEqual({ ...ONE, since: 0, borrowsFrom: 1 });
  });

  it.each([
    ["asks for a look at a new registry where other nodes exist", 5_000, 5_000],
    ["asks for no look where no other node exists", null, undefined],
  ])("%s", (_name, remindAtMs, wanted) => {
    const view = new RuleView();
    view.run(addRule(view, 0, subscriber({ remindAtMs })));
    expect(view.reminder).toBe(wanted);
  });

  const after = (count: number, laggards: number, departedBorrowers: number, version: number) => ({
    count,
    laggards,
    departedBorrowers,
    version,
  });
  const rows: readonly [string, RuleView, Partial<AddSubscriber>, object, object][] = [
    ["counts another session", registered(), { session: "t" }, { isKnown: false }, after(2, 0, 0, 2)],
    ["changes nothing when it is repeated", registered(), {}, { isKnown: true }, after(1, 0, 0, 1)],
    ["replaces the session's earlier subscription", registered(), { epoch: 2 }, { isKnown: false }, after(1, 0, 0, 2)],
    [
      "ignores an earlier attempt that comes late",
      registered(adding({ epoch: 3 })),
      { epoch: 2 },
      { isKnown: true },
      after(1, 0, 0, 2),
    ],
    ["takes a later session of the same id", registered(), { incarnation: "2" }, { isKnown: false }, after(1, 0, 0, 2)],
    [
      "notes a session that starts before the cursor as a laggard",
      registered(),
      { session: "t", start: at(5) },
      { isKnown: false, lagsAt: at(5) },
      after(2, 1, 0, 2),
    ],
    [
      "notes no laggard when the session starts beyond the cursor",
      registered(),
      { session: "t", start: at(15) },
      { lagsAt: undefined },
      after(2, 0, 0, 2),
    ],
    [
      "tells a repeated laggard where it is",
      registered(advancing(20, "s")),
      {},
      { isKnown: true, lagsAt: at(10) },
      after(1, 1, 0, 2),
    ],
    [
      "makes a laggard that begins anew at the cursor one of the others",
      registered(advancing(20, "s")),
      { epoch: 2, start: at(20) },
      { lagsAt: undefined },
      after(1, 0, 0, 3),
    ],
    [
      "keeps a laggard that begins anew before the cursor",
      registered(advancing(20, "s")),
      { epoch: 2, start: at(12) },
      { lagsAt: at(12) },
      after(1, 1, 0, 3),
    ],
    [
      "takes a departed borrower back",
      registered(adding({ session: "t" }), removing({ keepsBorrowing: true })),
      { epoch: 2 },
      { isKnown: false },
      after(2, 0, 0, 4),
    ],
    [
      "takes a departed borrower back under the same epoch",
      registered(adding({ session: "t" }), removing({ keepsBorrowing: true })),
      {},
      { isKnown: false },
      after(2, 0, 0, 4),
    ],
    [
      "refuses a registry that an earlier stream of the path still uses",
      registered(),
      { name: "later" },
      { kind: "of-another", name: "n" },
      after(1, 0, 0, 1),
    ],
    [
      "takes over a registry that only departed borrowers use",
      registered(removing({ keepsBorrowing: true })),
      { session: "t", name: "later", start: at(3) },
      { isKnown: false },
      after(1, 0, 1, 3),
    ],
  ];
  it.each(rows)("%s", (_name, view, input, outcome, wanted) => {
    expect(view.run(addRule(view, 1, subscriber(input)))).toMatchObject(outcome);
    expect(counts(view)).toEqual(wanted);
  });

  it("lets a session borrow only what is lent after it came, and again what it could borrow before it left", () => {
    const view = registered();
    view.run(lendRule(view, "n", [{ payload: utf8("x"), at: 0 }], 100));
    adding({ session: "t" })(view);
    adding({ session: "s", epoch: 2 })(view);
    expect(view.get(subscriberTable, "t")!.borrowsFrom).toBe(2);
    expect(view.get(subscriberTable, "s")!.borrowsFrom).toBe(1);
  });

  it("gives a later registry of the path a version that the earlier one never had", () => {
    const view = registered(removing({}));
    expect(view.exists).toBe(false);
    adding({})(view);
    expect(registry(view).version).toEqual({ generation: 2, seq: 1 });
  });
});

describe("removing subscribers", () => {
  const two = () => registered(adding({ session: "t" }));
  const removed = (...sessions: string[]) => ({ kind: "removed", sessions });
  const rows: readonly [
    string,
    RuleView,
    Partial<RemoveSubscriber>,
    object,
    readonly [number, number, number, number],
  ][] = [
    ["takes out the one that is meant", two(), {}, removed("s"), [1, 0, 0, 3]],
    ["takes out whichever subscription an ended session has", two(), { epoch: undefined }, removed("s"), [1, 0, 0, 3]],
    ["leaves a later subscription", two(), { epoch: 0 }, { kind: "absent" }, [2, 0, 0, 2]],
    ["leaves a later session of the same id", two(), { incarnation: "0" }, { kind: "absent" }, [2, 0, 0, 2]],
    ["finds no session that never came", two(), { session: "u" }, { kind: "absent" }, [2, 0, 0, 2]],
    [
      "takes out a laggard with its note",
      registered(adding({ session: "t" }), advancing(20, "s")),
      {},
      removed("s"),
      [1, 0, 0, 4],
    ],
    ["keeps the row of a session that still borrows", two(), { keepsBorrowing: true }, removed("s"), [1, 0, 1, 3]],
    [
      "takes out a departed borrower once it borrows nothing",
      registered(adding({ session: "t" }), removing({ keepsBorrowing: true })),
      {},
      removed("s"),
      [1, 0, 0, 4],
    ],
  ];
  it.each(rows)("%s", (_name, view, input, outcome, [count, laggards, departedBorrowers, version]) => {
    expect(view.run(removeRule(view, [leaver(input)]))).toMatchObject(outcome);
    expect(counts(view)).toEqual({ count, laggards, departedBorrowers, version });
    expect(view.get(laggardTable, "s")).toBeUndefined();
  });

  it("destroys the registry with the last subscriber", () => {
    const view = two();
    expect(view.run(removeRule(view, [leaver(), leaver({ session: "t" })]))).toEqual({ kind: "emptied" });
    expect(view.exists).toBe(false);
  });

  it("keeps a registry without subscribers while a departed session borrows", () => {
    const view = registered(removing({ keepsBorrowing: true }));
    expect(counts(view)).toMatchObject({ count: 0, departedBorrowers: 1 });
    expect(view.run(removeRule(view, [leaver()]))).toEqual({ kind: "emptied" });
  });

  it("finds nothing in the registry of another stream of the path", () => {
    const view = registered();
    expect(view.run(removeRule(view, [leaver()], "later"))).toEqual({ kind: "absent" });
    expect(view.run(removeRule(view, [leaver()], "n"))).toEqual({ kind: "emptied" });
    expect(view.run(removeRule(view, [leaver()]))).toEqual({ kind: "absent" });
  });
});

describe("advancing the cursor", () => {
  it("counts the fan-out and keeps the version when every session was served", () => {
    const view = registered();
    expect(view.run(advanceRule(view, advance(view)))).toMatchObject({ kind: "advanced", lagging: [] });
    expect(registry(view)).toMatchObject({ cursor: at(20), seq: 1, version: at(1) });
  });

  it("notes sessions that could not be served, which changes the version", () => {
    const view = registered(adding({ session: "t" }), advancing(20, "s"));
    expect(view.get(laggardTable, "s")).toEqual({ at: at(10) });
    expect(counts(view)).toEqual({ count: 2, laggards: 1, departedBorrowers: 0, version: 3 });
  });

  it.each([
    [
      "a session that left meanwhile",
      registered(adding({ session: "t" }), removing({ keepsBorrowing: true })),
      lags("s"),
    ],
    ["a session that subscribed anew", registered(adding({ epoch: 2 })), lags("s")],
    ["a later session of the same id", registered(adding({ incarnation: "2" })), lags("s")],
    ["a session that never came", registered(), lags("u")],
    ["a laggard a second time", registered(advancing(15, "s")), lags("s")],
  ])("does not note %s", (_name, view, laggard) => {
    const { laggards, version } = registry(view);
    expect(view.run(advanceRule(view, advance(view, { laggards: [laggard] })))).toMatchObject({ lagging: [] });
    expect(registry(view)).toMatchObject({ cursor: at(20), laggards, version });
  });

  it.each([
    ["to where the cursor is", { to: at(10) }, { kind: "advanced", lagging: [] }],
    [
      "to before the cursor, which another node has moved",
      { to: at(9), laggards: [lags("s")] },
      { kind: "advanced", lagging: [] },
    ],
    ["for an earlier version, whose sessions are not today's", { version: at(0) }, { kind: "changed" }],
    ["for the version of an earlier registry", { version: { generation: 0, seq: 1 } }, { kind: "changed" }],
    ["for another stream of the path", { name: "later" }, { kind: "gone" }],
  ])("changes nothing %s", (_name, input, outcome) => {
    const view = registered();
    expect(view.run(advanceRule(view, advance(view, input)))).toMatchObject(outcome);
    expect(view.changes).toEqual([]);
  });

  it("finds no registry that has gone", () => {
    const input = { name: "n", version: at(1), to: at(20), laggards: [] };
    expect(advanceRule(new RuleView(), input)).toEqual({ outcome: { kind: "gone" } });
  });
});

describe("a laggard", () => {
  const lagging = () => registered(advancing(20, "s"));
  it.each([
    ["joins the others at the cursor", ONE, 20, "joined", undefined],
    ["joins the others beyond the cursor", ONE, 25, "joined", undefined],
    ["is noted where it has come to", ONE, 15, "behind", at(15)],
    ["never goes back", ONE, 9, "behind", at(10)],
    ["of an earlier subscription is gone", { ...ONE, epoch: 0 }, 20, "gone", at(10)],
    ["of an earlier session is gone", { ...ONE, incarnation: "0" }, 20, "gone", at(10)],
  ])("%s", (_name, who, to, kind, noted) => {
    const view = lagging();
    expect(view.run(caughtUpRule(view, "s", who, at(to)))).toMatchObject({ kind });
    expect(view.get(laggardTable, "s")?.at).toEqual(noted);
    const isJoined = kind === "joined";
    expect(counts(view)).toMatchObject({ laggards: isJoined ? 0 : 1, version: isJoined ? 3 : 2 });
  });

  it("that is no laggard any more is gone", () => {
    const view = registered();
    expect(view.run(caughtUpRule(view, "s", ONE, at(10)))).toEqual({ kind: "gone" });
  });
});

describe("lending", () => {
  const payload = { payload: utf8("12345"), at: 0 };

  it("appends the payloads and says where the first lies", () => {
    const view = registered();
    expect(view.run(lendRule(view, "n", [payload, payload], 100))).toEqual(at(1));
    expect(view.run(lendRule(view, "n", [payload], 100))).toEqual(at(3));
    expect(view.log.length).toBe(3);
  });

  it.each([
    ["another stream of the path", "later", 100],
    ["a log that holds more than the limit", "n", 4],
  ])("takes nothing for %s", (_name, name, maxBytes) => {
    const view = registered((one) => void one.run(lendRule(one, "n", [payload], 100)));
    expect(view.run(lendRule(view, name, [payload], maxBytes))).toBeUndefined();
    expect(view.log.length).toBe(1);
  });

  it("takes payloads while the log holds exactly the limit", () => {
    const view = registered((one) => void one.run(lendRule(one, "n", [payload], 100)));
    expect(view.run(lendRule(view, "n", [payload], 5))).toEqual(at(2));
  });

  it("takes payloads again once earlier ones are trimmed", () => {
    const view = registered((one) => void one.run(lendRule(one, "n", [payload], 100)));
    view.run(trimRule(view, "n", { position: at(1), bytes: 5 }));
    expect(view.log).toEqual([]);
    expect(view.run(lendRule(view, "n", [payload], 4))).toEqual(at(2));
  });

  it.each([
    ["what is trimmed already", "n", 1],
    ["the log of another stream of the path", "later", 2],
  ])("does not trim %s", (_name, name, seq) => {
    const view = registered((one) => void one.run(lendRule(one, "n", [payload, payload], 100)));
    view.run(trimRule(view, "n", { position: at(1), bytes: 5 }));
    view.run(trimRule(view, name, { position: at(seq), bytes: 5 * seq }));
    expect(view.changes).toEqual([]);
  });
});

it("a reminder is set only where a registry is", () => {
  expect(remindRule(new RuleView(), 5).changes).toBeUndefined();
  const view = registered();
  view.run(remindRule(view, 5));
  expect(view.reminder).toBe(5);
});
