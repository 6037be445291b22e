/**
 * The rules of sharded topics: which shard takes an append, and the steps of a topic and its shards. Pure; `sharded.ts`
 * strings them together, and the append rule and `life.ts` hold the rest.
 *
 * Invariants: `hashOf` never changes, on any node and in any version. All messages of one key must go to the same
 * shard, and clients compute the hash too.
 */
import type { Position } from "@sluice/protocol";
import { utf8 } from "../core/bytes.ts";
import { type Change, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import type { Append } from "./append.ts";
import type { StreamLimits } from "./defaults.ts";
import { createRule, type DeleteOutcome, nextCheck, remove } from "./life.ts";
import { endsAt, followsOf, idleAt, lifeOf, type Meta, metaTable, type StreamConfig } from "./state.ts";

/**
 * A 32-bit hash: FNV-1a over the UTF-8 bytes, then the finalizer of MurmurHash3. The finalizer is needed because the
 * low bits of FNV-1a are weak, and a remainder by a power of two consists of them.
 */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of utf8(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** By key, else by producer; undefined if the append has neither, because any shard will do. */
export function shardOf({ messageKey, producer }: Append, shards: number): number | undefined {
  const text = messageKey ?? producer?.id;
  return text === undefined ? undefined : hashOf(text) % shards;
}

/** A topic as a request that completes its step needs it. */
export type LookOutcome = { readonly kind: "topic"; readonly meta: Meta } | { readonly kind: "absent" };

export function lookRule(view: View, now: number): Decision<LookOutcome> {
  const meta = liveTopic(view, now);
  return { outcome: meta ? { kind: "topic", meta } : { kind: "absent" } };
}

function liveTopic(view: View, now: number, id?: string): Meta | undefined {
  const meta = view.get(metaTable, "");
  if (meta?.topic === undefined || (id !== undefined && meta.topic.id !== id)) return undefined;
  return lifeOf(meta, view.head, now) === "live" ? meta : undefined;
}

export interface MakeShard {
  readonly topicId: string;
  /** The topic's configuration. */
  readonly config: StreamConfig;
  readonly closed: boolean;
}

export type MakeShardOutcome =
  | { readonly kind: "made" }
  | { readonly kind: "there"; readonly closed: boolean }
  /** A shard of an earlier or a later topic at this path. */
  | { readonly kind: "others"; readonly topicId: string }
  /** Not a shard, or a deleted shard that is kept for its forks. */
  | { readonly kind: "taken" };

/** Creates a shard with a reminder. If the topic goes meanwhile, no other entity knows of this shard. */
export function makeShardRule(
  view: View,
  now: number,
  { topicId, config, closed }: MakeShard,
  { shardCheckMs: checkMs }: StreamLimits,
): Decision<MakeShardOutcome> {
  const existing = view.get(metaTable, "");
  if (existing === undefined) {
    const own = { ...config, shards: undefined };
    const { changes } = createRule(view, now, { config: own, closed, payloads: [], shardOf: topicId, checkMs });
    return { outcome: { kind: "made" }, changes };
  }
  const { shardOf: of, deleted } = existing;
  if (of === undefined || deleted) return { outcome: { kind: "taken" } };
  if (of !== topicId) return { outcome: { kind: "others", topicId: of } };
  return { outcome: { kind: "there", closed: existing.closed } };
}

/**
 * Deletes the shard of the topic with this id; with `ifIdle` only if it was unused for its TTL. Shards of other topics
 * stay.
 */
export function dropShardRule(
  view: View,
  now: number,
  topicId: string,
  ifIdle: boolean,
  limits: StreamLimits,
): Decision<DeleteOutcome | { readonly kind: "kept" }> {
  const meta = view.get(metaTable, "");
  if (meta?.shardOf !== topicId) return { outcome: { kind: "absent" } };
  if (meta.deleted) return { outcome: { kind: "gone" } };
  if (ifIdle && now < idleAt(meta, view.head)) return { outcome: { kind: "kept" } };
  return remove(meta, now, limits);
}

/** All shards exist, and are closed if `closed`. `changed`: the topic's closed state changed meanwhile. */
export function wholeRule(
  view: View,
  now: number,
  topicId: string,
  closed: boolean,
): Decision<"whole" | "changed" | "absent"> {
  const meta = liveTopic(view, now, topicId);
  if (meta === undefined) return { outcome: "absent" };
  if (meta.closed !== closed) return { outcome: "changed" };
  if (meta.topic!.step === undefined) return { outcome: "whole" };
  const whole: Meta = { ...meta, topic: { id: topicId } };
  const remind: Change = { op: "remind", atMs: nextCheck(whole, view.head, now) ?? null };
  return { outcome: "whole", changes: [put(metaTable, "", whole), remind] };
}

/** Removes a topic that could not be created. */
export function abandonRule(
  view: View,
  now: number,
  topicId: string,
  limits: StreamLimits,
): Decision<DeleteOutcome | { readonly kind: "kept" }> {
  const meta = liveTopic(view, now, topicId);
  if (meta === undefined) return { outcome: { kind: "absent" } };
  const { step } = meta.topic!;
  return step === "making" || step === "ending" ? remove(meta, now, limits) : { outcome: { kind: "kept" } };
}

export type CloseOutcome =
  | { readonly kind: "closing" | "closed"; readonly next: Position }
  | { readonly kind: "absent" };

/** Closes the topic. Its shards follow, and the reminder stays until they have. */
export function closeRule(view: View, now: number, { shardCheckMs }: StreamLimits): Decision<CloseOutcome> {
  const meta = liveTopic(view, now);
  if (meta === undefined) return { outcome: { kind: "absent" } };
  const next = view.head.last;
  if (meta.closed) return { outcome: { kind: meta.topic!.step === undefined ? "closed" : "closing", next } };
  const closing: Meta = { ...meta, closed: true, touchedAt: now, topic: { ...meta.topic!, step: "closing" } };
  const changes: Change[] = [put(metaTable, "", closing), { op: "remind", atMs: now + shardCheckMs }];
  return { outcome: { kind: "closing", next }, changes };
}

/**
 * Begins to end a topic that was unused for its TTL; otherwise stores when to check again. `usedAt` is the last use of
 * a shard.
 */
export function restRule(
  view: View,
  now: number,
  topicId: string,
  usedAt: number,
  { shardCheckMs }: StreamLimits,
): Decision<"ending" | "kept" | "absent"> {
  const meta = liveTopic(view, now, topicId);
  if (meta === undefined) return { outcome: "absent" };
  const rested: Meta = usedAt > meta.touchedAt ? { ...meta, touchedAt: usedAt } : meta;
  const end = endsAt(rested, view.head);
  if (end !== undefined && now >= end) {
    const ending: Meta = { ...rested, topic: { id: topicId, step: "ending" } };
    return {
      outcome: "ending",
      changes: [put(metaTable, "", ending), { op: "remind", atMs: now + shardCheckMs }],
    };
  }
  const changes: Change[] = [{ op: "remind", atMs: end ?? null }];
  if (rested !== meta) changes.push(put(metaTable, "", rested));
  return { outcome: "kept", changes };
}

/**
 * Destroys a topic whose shards are gone. If a client used an ending shard meanwhile, the topic is no longer ending and
 * stays.
 */
export function destroyTopicRule(view: View, topicId: string): Decision<DeleteOutcome> {
  const meta = view.get(metaTable, "");
  const isEnding = meta?.deleted || meta?.topic?.step === "ending";
  if (meta?.topic?.id !== topicId || !isEnding) return { outcome: { kind: "absent" } };
  return { outcome: { kind: "deleted", follows: followsOf(meta) }, changes: [{ op: "destroy" }] };
}
