/**
 * What a stream knows of those who follow its log to copy it elsewhere: a name, so that whoever appends can tell them, and a
 * hold, so that retention waits for them. Pure; called by the service for the features that follow.
 *
 * What must stay true: the position a follower gets is the tail at the very commit from which on appends tell of it. So nothing
 * that is appended after it can be missed, and nothing before it is taken for new.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Change } from "../engine/draft.ts";
import { put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { holdsTable, lifeOf, type Meta, metaTable } from "./state.ts";

/** The name of the hold that fan-out has; one for all who get copies. */
export const FANOUT_HOLD = "fanout";

export type FollowOutcome =
  | { readonly kind: "following"; readonly meta: Meta; readonly name: string; readonly tail: Position }
  | { readonly kind: "absent" | "gone" }
  | { readonly kind: "sharded"; readonly shards: number };

/** `name` is used when nobody follows yet. With `from`, what comes after it is held rather than what comes after the tail. */
export function followRule(view: View, now: number, name: string, from?: Position): Decision<FollowOutcome> {
  const meta = view.get(metaTable, "");
  const life = lifeOf(meta, view.head, now);
  if (meta === undefined || life !== "live") return { outcome: { kind: life === "gone" ? "gone" : "absent" } };
  // What is copied has one order, and a topic has none.
  if (meta.config.shards !== undefined) return { outcome: { kind: "sharded", shards: meta.config.shards } };
  const tail = view.head.last;
  const changes: Change[] = [];
  if (meta.follow === undefined) changes.push(put(metaTable, "", { ...meta, follow: name }));
  changes.push(...kept(view, meta, from ?? tail));
  return { outcome: { kind: "following", meta, name: meta.follow ?? name, tail }, changes };
}

/** What comes after a position is held, if it is not held already; once more, where another node may just have let go of it. */
export function keepRule(view: View, now: number, name: string, from: Position): Decision<void> {
  const meta = view.get(metaTable, "");
  const isIt = meta?.follow === name && lifeOf(meta, view.head, now) === "live";
  return { outcome: undefined, changes: isIt ? kept(view, meta, from) : [] };
}

function kept(view: View, { config }: Meta, from: Position): Change[] {
  if (config.retention === undefined) return [];
  const holds = view.get(holdsTable, "") ?? {};
  const held = holds[FANOUT_HOLD];
  if (held !== undefined && comparePositions(from, held) >= 0) return [];
  return [put(holdsTable, "", { ...holds, [FANOUT_HOLD]: from })];
}
