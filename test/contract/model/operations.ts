/**
 * The operations of a model-based run, as data. They name their entity, rev, position or owner relatively ("the newest rev", "the
 * second owner"). So the same sequence means the same on engines whose numbers differ.
 */
import fc from "fast-check";
import { type Entity, entity } from "../../../packages/server/src/engine/contract.ts";
import { AWKWARD_KEYS } from "../suite/fixture.ts";

export const ENTITIES: readonly Entity[] = [
  entity("p", "stream", "a"),
  entity("p", "stream", "a/t"),
  entity("p", "stream", "\uFF5E"),
  entity("p", "stream", "\u{1F600}"),
  entity("p", "session", "a"),
  entity("q", "stream", "a"),
];
export const TABLES = ["t", "t/a"] as const;
/** The longest claim or window. A restart waits for the end of all of them, because engines may forget them. */
export const LONGEST_MS = 5_000;

export interface MessagePlan {
  readonly size: number;
  readonly fill: number;
  readonly at: number;
  readonly id: string | undefined;
  readonly key: string | undefined;
  readonly attributes: Record<string, string> | undefined;
}

export type EffectPlan =
  /**
   * `from`: at zero, in its own new generation, or (a fork) at the tail of another entity's log. `anew`: even if a log exists.
   */
  | { readonly op: "begin"; readonly from: "zero" | "own" | number; readonly seq: number; readonly anew: boolean }
  | { readonly op: "append"; readonly messages: readonly MessagePlan[] }
  | { readonly op: "put"; readonly table: string; readonly key: string; readonly size: number; readonly fill: number }
  | { readonly op: "drop"; readonly table: string; readonly key: string }
  /** The share of the remaining messages that is trimmed, from one to all. */
  | { readonly op: "trim"; readonly share: number }
  | { readonly op: "remind"; readonly inMs: number | null }
  | { readonly op: "destroy" };

export interface CommitPlan {
  readonly e: number;
  /** The newest rev, or the one this many revs ago. */
  readonly age: number;
  readonly owner: number | undefined;
  readonly keys: readonly string[];
  readonly effects: readonly EffectPlan[];
}

export interface PositionPlan {
  readonly from: "zero" | "own" | "older" | "newer";
  readonly seq: number;
}

/** The byte limit of a page: the size of this many messages, and a little more or less. */
export interface RoomPlan {
  readonly messages: number;
  readonly more: number;
}

export type Operation =
  | { readonly op: "commit"; readonly plan: CommitPlan }
  /** Concurrent commits to different entities. */
  | { readonly op: "together"; readonly plans: readonly CommitPlan[] }
  /** The same commit by several callers at once, of which one wins. */
  | { readonly op: "rivals"; readonly plan: CommitPlan; readonly count: number }
  | { readonly op: "load"; readonly e: number; readonly keys: readonly string[] }
  | { readonly op: "read"; readonly e: number; readonly after: PositionPlan; readonly room: RoomPlan }
  | { readonly op: "rows"; readonly e: number; readonly table: string; readonly after: string; readonly limit: number }
  | { readonly op: "list"; readonly e: number; readonly prefix: string; readonly after: string; readonly limit: number }
  | { readonly op: "projects"; readonly e: number }
  | { readonly op: "due" }
  | {
      readonly op: "claim";
      readonly e: number;
      readonly node: string;
      readonly ttlMs: number;
      readonly held: number | undefined;
    }
  | { readonly op: "release"; readonly e: number; readonly owner: number }
  | { readonly op: "hit"; readonly key: string; readonly limit: number; readonly windowMs: number }
  | { readonly op: "advance"; readonly ms: number }
  | { readonly op: "restart" };

const e = fc.nat({ max: ENTITIES.length - 1 });
const key = fc.constantFrom("", "k", "kk", ...AWKWARD_KEYS);
const table = fc.constantFrom(...TABLES);
const fill = fc.nat({ max: 255 });
/** Mostly small; sometimes larger than one value of an engine. */
const size = fc.oneof(
  { weight: 6, arbitrary: fc.nat({ max: 60 }) },
  { weight: 6, arbitrary: fc.constantFrom(0, 10, 20) },
  { weight: 1, arbitrary: fc.nat({ max: 150_000 }) },
);

const messagePlan: fc.Arbitrary<MessagePlan> = fc.record({
  size,
  fill,
  at: fc.nat({ max: 2 ** 40 }),
  id: fc.constantFrom(undefined, "", "id", "id \u{1F600}"),
  key: fc.constantFrom(undefined, "", "key/é"),
  attributes: fc.constantFrom<Record<string, string> | undefined>(
    undefined,
    { a: "1" },
    { b: "", "\u{1F600}": "é", "": "empty" },
  ),
});

const effectPlan = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("begin" as const),
      from: fc.oneof(fc.constantFrom("zero" as const, "own" as const), e),
      seq: fc.nat({ max: 3 }),
      anew: fc.nat({ max: 4 }).map((n) => n === 0),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ op: fc.constant("append" as const), messages: fc.array(messagePlan, { maxLength: 6 }) }),
  },
  { weight: 4, arbitrary: fc.record({ op: fc.constant("put" as const), table, key, size, fill }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("drop" as const), table, key }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("trim" as const), share: fc.constantFrom(0.01, 0.3, 0.7, 1) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant("remind" as const),
      inMs: fc.option(fc.integer({ min: -2_000, max: 4_000 })),
    }),
  },
) satisfies fc.Arbitrary<EffectPlan>;

/** Destroying is rare, because otherwise no log would grow, and comes last, as the contract demands. */
const effectPlans: fc.Arbitrary<readonly EffectPlan[]> = fc
  .tuple(fc.array(effectPlan, { maxLength: 5 }), fc.nat({ max: 15 }))
  .map(([effects, die]) => (die === 0 ? [...effects, { op: "destroy" }] : effects));

const commitPlan: fc.Arbitrary<CommitPlan> = fc.record({
  e,
  age: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat({ max: 4 }) }),
  owner: fc.option(fc.nat({ max: 5 }), { nil: undefined, freq: 5 }),
  keys: fc.array(key, { maxLength: 3 }),
  effects: effectPlans,
});

const position: fc.Arbitrary<PositionPlan> = fc.record({
  from: fc.constantFrom("zero", "own", "own", "own", "older", "newer"),
  seq: fc.nat({ max: 12 }),
});
const limit = fc.integer({ min: 1, max: 5 });
const prefix = fc.constantFrom("", "", "a", "a/", "\u{1F600}", "\uFF5E", "none");
const ms = fc.integer({ min: 1, max: LONGEST_MS });

export function operations(restarts: boolean, maxLength: number): fc.Arbitrary<Operation[]> {
  const any: fc.Arbitrary<Operation> = fc.oneof(
    { weight: 14, arbitrary: fc.record({ op: fc.constant("commit" as const), plan: commitPlan }) },
    {
      weight: 3,
      arbitrary: fc.record({
        op: fc.constant("together" as const),
        plans: fc.uniqueArray(commitPlan, { selector: (plan) => plan.e, maxLength: 5 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        op: fc.constant("rivals" as const),
        plan: commitPlan,
        count: fc.integer({ min: 2, max: 4 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ op: fc.constant("load" as const), e, keys: fc.array(key, { maxLength: 4 }) }) },
    {
      weight: 5,
      arbitrary: fc.record({
        op: fc.constant("read" as const),
        e,
        after: position,
        room: fc.record({ messages: fc.nat({ max: 10 }), more: fc.constantFrom(-1, 0, 1, 30) }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ op: fc.constant("rows" as const), e, table, after: key, limit }) },
    { weight: 2, arbitrary: fc.record({ op: fc.constant("list" as const), e, prefix, after: key, limit }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("projects" as const), e }) },
    { weight: 2, arbitrary: fc.constant({ op: "due" as const }) },
    {
      weight: 2,
      arbitrary: fc.record({
        op: fc.constant("claim" as const),
        e,
        node: fc.constantFrom("n1", "n2"),
        ttlMs: ms,
        held: fc.option(fc.nat({ max: 5 }), { nil: undefined }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("release" as const), e, owner: fc.nat({ max: 5 }) }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("hit" as const), key, limit, windowMs: ms }) },
    { weight: 2, arbitrary: fc.record({ op: fc.constant("advance" as const), ms }) },
    { weight: restarts ? 2 : 0, arbitrary: fc.constant({ op: "restart" as const }) },
  );
  return fc.array(any, { maxLength, size: "max" });
}
