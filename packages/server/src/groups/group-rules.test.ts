import { expect, test } from "vitest";
import { type Change, Draft } from "../engine/draft.ts";
import type { Decision } from "../engine/keeper.ts";
import { beginTermRule, declareRule, deleteRule, endTermRule, seekRule, storeRule } from "./group-rules.ts";
import { META, streamTable } from "./state.ts";

const at = (seq: number) => ({ generation: 1, seq });

/** The rows of a group, changed by rules. */
class Rows {
  readonly draft = new Draft(100);

  constructor() {
    this.draft.fill([META, streamTable.at("s")], {
      rev: 0,
      head: this.draft.head,
      nextGeneration: 1,
      rows: [undefined, undefined],
    });
  }

  run<O>(rule: (view: Draft) => Decision<O>): O {
    const { outcome, changes = [] as readonly Change[] } = rule(this.draft);
    for (const change of changes) this.draft.apply(change);
    return outcome;
  }

  get meta() {
    return this.draft.get(META.of, "");
  }
}

test("a group is created once; latest is the time of that request", () => {
  const rows = new Rows();
  expect(rows.run((view) => declareRule(view, 50, { start: { kind: "latest" } }))).toMatchObject({ kind: "created" });
  expect(rows.meta).toMatchObject({ createdAt: 50, start: { kind: "time", atMs: 50 }, term: 0, isClean: true });
  expect(rows.run((view) => declareRule(view, 90, { start: { kind: "earliest" } }))).toMatchObject({ kind: "exists" });
  expect(rows.meta?.start).toEqual({ kind: "time", atMs: 50 });
});

test.each([
  [undefined, "exists"],
  [{ leaseMs: 1 }, "exists"],
  [{ leaseMs: 2 }, "differs"],
  [{}, "differs"],
])("a group with a lease of 1 ms, declared with %j, %s", (config, kind) => {
  const rows = new Rows();
  rows.run((view) => declareRule(view, 0, { start: { kind: "earliest" }, config: { leaseMs: 1 } }));
  expect(rows.run((view) => declareRule(view, 0, { start: { kind: "earliest" }, config })).kind).toBe(kind);
});

test("every leader has a later term, and knows whether the one before ended without members", () => {
  const rows = new Rows();
  expect(rows.run((view) => beginTermRule(view, "n1"))).toEqual({ kind: "absent" });
  rows.run((view) => declareRule(view, 0, { start: { kind: "earliest" } }));
  expect(rows.run((view) => beginTermRule(view, "n1"))).toMatchObject({ wasClean: true, meta: { term: 1 } });
  expect(rows.run((view) => beginTermRule(view, "n1"))).toMatchObject({ wasClean: false, meta: { term: 2 } });
  rows.run((view) => endTermRule(view, 1));
  expect(rows.meta?.isClean).toBe(false);
  rows.run((view) => endTermRule(view, 2));
  expect(rows.run((view) => beginTermRule(view, "n1"))).toMatchObject({ wasClean: true });
});

test("progress is stored in the leader's own term and edition only", () => {
  const rows = new Rows();
  rows.run((view) => declareRule(view, 0, { start: { kind: "earliest" } }));
  rows.run((view) => beginTermRule(view, "n1"));
  const store = (term: number, edition: number) =>
    rows.run((view) => storeRule(view, { term, edition }, new Map([["s", { at: at(3) }]])));
  expect(store(0, 1)).toBe("changed");
  expect(store(1, 1)).toBe("stored");
  expect(rows.draft.get(streamTable, "s")).toEqual({ at: at(3), edition: 1 });
  expect(rows.run((view) => seekRule(view, 7, { kind: "latest" }))).toBe("sought");
  expect(rows.meta).toMatchObject({ edition: 2, start: { kind: "time", atMs: 7 } });
  expect(store(1, 1)).toBe("changed");
  expect(store(1, 2)).toBe("stored");
  rows.run((view) => storeRule(view, { term: 1, edition: 2 }, new Map([["s", undefined]])));
  expect(rows.draft.get(streamTable, "s")).toBeUndefined();
});

test("a group that is deleted is gone for its leader and for a seek", () => {
  const rows = new Rows();
  expect(rows.run(deleteRule)).toBe("absent");
  rows.run((view) => declareRule(view, 0, { start: { kind: "earliest" } }));
  expect(rows.run(deleteRule)).toBe("deleted");
  const empty = new Rows();
  expect(empty.run((view) => seekRule(view, 0, { kind: "earliest" }))).toBe("absent");
  expect(empty.run((view) => storeRule(view, { term: 0, edition: 1 }, new Map()))).toBe("changed");
});
