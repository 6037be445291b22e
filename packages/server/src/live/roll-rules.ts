/**
 * The rules of a stream's roll: which sessions follow it, and how many. Pure; `Rolls` submits them to the roll's keeper.
 *
 * Invariants: the count equals the number of rows, because both change in one commit. A row is struck only for the subscription
 * that it stands for, or a later one: a late removal never strikes a newer subscription. An empty roll is destroyed.
 */
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { rollTable, type Subscriber, subscriberTable } from "./state.ts";

/** One subscription of a session to the stream. */
export interface Enrolled extends Subscriber {
  readonly session: string;
}

/** Adds a subscription. Returns the number of subscribers. */
export function enrollRule(view: View, now: number, enrolled: Enrolled, reconcileMs: number): Decision<number> {
  const { session, incarnation, epoch } = enrolled;
  const row = put(subscriberTable, session, { incarnation, epoch });
  const roll = view.get(rollTable, "");
  if (roll === undefined) {
    const remind: Change = { op: "remind", atMs: now + reconcileMs };
    return { outcome: 1, changes: [put(rollTable, "", { count: 1, checked: "" }), row, remind] };
  }
  const known = view.get(subscriberTable, session);
  if (known === undefined) {
    const count = roll.count + 1;
    return { outcome: count, changes: [put(rollTable, "", { ...roll, count }), row] };
  }
  const isNewer = known.incarnation !== incarnation || known.epoch < epoch;
  return { outcome: roll.count, changes: isNewer ? [row] : [] };
}

/** Removes subscriptions; the last one takes the roll with it. Returns how many were on it. */
export function strikeRule(view: View, ended: readonly Enrolled[]): Decision<number> {
  const roll = view.get(rollTable, "");
  if (roll === undefined) return { outcome: 0 };
  const struck = ended.filter(({ session, incarnation, epoch }) => {
    const row = view.get(subscriberTable, session);
    return row?.incarnation === incarnation && row.epoch <= epoch;
  });
  if (struck.length === 0) return { outcome: 0 };
  const count = roll.count - struck.length;
  if (count <= 0) return { outcome: struck.length, changes: [{ op: "destroy" }] };
  const drops = struck.map(({ session }) => drop(subscriberTable, session));
  return { outcome: struck.length, changes: [put(rollTable, "", { ...roll, count }), ...drops] };
}

/** Notes how far the reconciliation has come, and when it continues. */
export function checkedRule(view: View, checked: string, nextAtMs: number): Decision<void> {
  const roll = view.get(rollTable, "");
  // No commit leaves a reminder without a roll. A repair or a restore may, and this removes it.
  if (roll === undefined) return { outcome: undefined, changes: view.exists ? [{ op: "destroy" }] : [] };
  return { outcome: undefined, changes: [put(rollTable, "", { ...roll, checked }), { op: "remind", atMs: nextAtMs }] };
}
