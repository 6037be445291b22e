/**
 * Who is live on a stream: the members that asked to be shown. One entity per stream, kind "presence". Pure rules; `Presence`
 * submits them.
 *
 *     presence  ""        the number of members
 *     member    session   the node and the connection that show it, its subject, since when, its own state
 *
 * Invariants: a member belongs to one connection; only that connection, or the end of its node, removes it. The count equals the
 * number of rows. An empty entity is destroyed.
 */
import { type Entity, entity } from "../engine/contract.ts";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { jsonTable } from "../engine/table.ts";

export const PRESENCE = "presence";

export interface Member {
  /** The node whose connection shows it. */
  readonly node: string;
  /** Of the connection. */
  readonly nonce: string;
  /** Grows with every connection of the session. */
  readonly connection: number;
  readonly subject?: string | undefined;
  readonly since: number;
  /** JSON of the client's own. */
  readonly state?: unknown;
}

export const memberTable = jsonTable<Member>("member");
export const countTable = jsonTable<{ readonly count: number }>("presence");
export const COUNT_ROW = countTable.at("");

export function presenceEntity(project: string, stream: string): Entity {
  return entity(project, PRESENCE, stream);
}

export interface Shown extends Omit<Member, "since"> {
  readonly session: string;
}

export interface PresenceLimits {
  /** Members that are shown on one stream; later ones are not. */
  readonly members: number;
  /** How often the members of a stream are compared with the nodes that are alive. */
  readonly sweepMs: number;
}

/** Shows a member, or its new state. `full`: too many are shown already. */
export function showRule(
  view: View,
  now: number,
  shown: Shown,
  limits: PresenceLimits,
): Decision<"shown" | "full" | "stale"> {
  const { session, ...rest } = shown;
  const count = view.get(countTable, "")?.count ?? 0;
  const known = view.get(memberTable, session);
  // The session has a newer connection, which shows it now.
  if (known !== undefined && known.connection > shown.connection) return { outcome: "stale" };
  if (known === undefined && count >= limits.members) return { outcome: "full" };
  const changes: Change[] = [put(memberTable, session, { ...rest, since: known?.since ?? now })];
  if (known === undefined) changes.push(put(countTable, "", { count: count + 1 }));
  if (count === 0) changes.push({ op: "remind", atMs: now + limits.sweepMs });
  return { outcome: "shown", changes };
}

/** Removes the members that these connections show. */
export function hideRule(
  view: View,
  gone: readonly { readonly session: string; readonly nonce: string }[],
): Decision<void> {
  const hidden = gone.filter(({ session, nonce }) => view.get(memberTable, session)?.nonce === nonce);
  if (hidden.length === 0) return { outcome: undefined };
  const count = (view.get(countTable, "")?.count ?? 0) - hidden.length;
  if (count <= 0) return { outcome: undefined, changes: [{ op: "destroy" }] };
  const drops = hidden.map(({ session }) => drop(memberTable, session));
  return { outcome: undefined, changes: [put(countTable, "", { count }), ...drops] };
}

/** Asks for the next look at the members of this stream, while there are any. */
export function sweptRule(view: View, now: number, { sweepMs }: PresenceLimits): Decision<void> {
  const isEmpty = view.get(countTable, "") === undefined;
  if (isEmpty) return { outcome: undefined, changes: view.exists ? [{ op: "destroy" }] : [] };
  return { outcome: undefined, changes: [{ op: "remind", atMs: now + sweepMs }] };
}
