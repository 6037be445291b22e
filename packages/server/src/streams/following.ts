/**
 * What a stream stores about the features that follow its log. Each follower has a name, so that an append can notify
 * it, and a hold, so that retention waits for it. Pure; `Streams` calls it for fan-out and wakes, which follow side by
 * side.
 *
 * Invariants: a follower's position is the tail at the commit from which on appends notify it. So it misses no later
 * append and takes no earlier one for new. Only a stream with retention stores holds, and only for followers that ask for one.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Change } from "../engine/draft.ts";
import { put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { followsOf, holdsTable, lifeOf, type Meta, metaTable } from "./state.ts";

export interface Follow {
  /** The feature that follows; its hold has the same name. */
  readonly follower: string;
  /** Becomes the follower's name on this stream, unless it has one already. */
  readonly name: string;
  /** Retention keeps the messages after this position; the tail by default. */
  readonly from?: Position | undefined;
  /** Whether retention keeps messages for this follower; true by default. */
  readonly holds?: boolean | undefined;
}

/** A follower whose messages are kept after a position. */
export type Held = Required<Pick<Follow, "follower" | "name" | "from">>;

export type FollowOutcome =
  | { readonly kind: "following"; readonly meta: Meta; readonly name: string; readonly tail: Position }
  | { readonly kind: "absent" | "gone" }
  | { readonly kind: "sharded"; readonly shards: number };

export function followRule(
  view: View,
  now: number,
  { follower, name, from, holds = true }: Follow,
): Decision<FollowOutcome> {
  const meta = view.get(metaTable, "");
  const life = lifeOf(meta, view.head, now);
  if (meta === undefined || life !== "live") return { outcome: { kind: life === "gone" ? "gone" : "absent" } };
  // A follower needs one order of messages, and a topic has none.
  if (meta.config.shards !== undefined) return { outcome: { kind: "sharded", shards: meta.config.shards } };
  const tail = view.head.last;
  const follows = followsOf(meta);
  const known = follows?.[follower];
  const changes: Change[] = [];
  if (known === undefined) {
    changes.push(put(metaTable, "", { ...meta, follow: undefined, follows: { ...follows, [follower]: name } }));
  }
  if (holds) changes.push(...kept(view, meta, follower, from ?? tail));
  return { outcome: { kind: "following", meta, name: known ?? name, tail }, changes };
}

/**
 * Holds the messages after a position unless they are held. The hold is stored again where another node may just have
 * released it.
 */
export function keepRule(view: View, now: number, { follower, name, from }: Held): Decision<void> {
  const meta = view.get(metaTable, "");
  const isFollowed =
    meta !== undefined && isFollowedAs(meta, follower, name) && lifeOf(meta, view.head, now) === "live";
  return { outcome: undefined, changes: isFollowed && from ? kept(view, meta, follower, from) : [] };
}

/** Whether this is the stream that the follower knows by that name, and not a later one at the same path. */
export function isFollowedAs(meta: Meta, follower: string, name: string): boolean {
  return followsOf(meta)?.[follower] === name;
}

function kept(view: View, { config }: Meta, follower: string, from: Position): Change[] {
  if (config.retention === undefined) return [];
  const holds = view.get(holdsTable, "") ?? {};
  const held = holds[follower];
  if (held !== undefined && comparePositions(from, held) >= 0) return [];
  return [put(holdsTable, "", { ...holds, [follower]: from })];
}
