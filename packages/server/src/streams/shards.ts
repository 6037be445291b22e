/**
 * The rules of sharded topics: which shard takes an append, and the steps of a topic and of its shards when one is made, closed,
 * rests or goes. Pure; `sharded.ts` strings them together, the append rule and `life.ts` have the rest.
 *
 * What must stay true: `hashOf` never changes, on any node and in any version. What a key was appended to before is where all
 * that comes with it later must go; others compute it too.
 */
import type { Position } from "@sluice/protocol";
import { utf8 } from "../core/bytes.ts";
import { type Change, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import type { Append } from "./append.ts";
import { createRule, type DeleteOutcome, nextCheck, remove } from "./life.ts";
import type { StreamLimits } from "./limits.ts";
import { endsAt, followsOf, idleAt, lifeOf, type Meta, metaTable, type StreamConfig } from "./state.ts";

/**
 * 32 bits: FNV-1a over the UTF-8 bytes, and then the finishing steps of MurmurHash3, because the lowest bits of FNV-1a alone
 * say little about a text and the rest of a division by a power of two is made of them.
 */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of utf8(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** By key, else by producer; undefined when it has neither, and any shard will do. */
export function shardOf({ messageKey, producer }: Append, shards: number): number | undefined {
  const text = messageKey ?? producer?.id;
  return text === undefined ? undefined : hashOf(text) % shards;
}

/** What a topic is, for whoever takes its shards through a step. */
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
  /** The topic's. */
  readonly config: StreamConfig;
  readonly closed: boolean;
}

export type MakeShardOutcome =
  | { readonly kind: "made" }
  | { readonly kind: "there"; readonly closed: boolean }
  /** A shard of an earlier topic of this name, or of a later one. */
  | { readonly kind: "others"; readonly topicId: string }
  /** No shard at all, or one that went and is kept for its forks. */
  | { readonly kind: "taken" };

/** The shard asks to be looked at soon: should its topic go while it is made, nobody else would know of it. */
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

/** The shard goes with the topic of this id; with `ifIdle` only if nobody has used it for its TTL. What is another's stays. */
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

/** All shards are there, and closed if `closed`. `changed`: the topic wants something else of them by now. */
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

/** Takes a topic back that could not be made. */
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

/** From here on the topic is closed; its shards follow, and until then the reminder stands. */
export function closeRule(view: View, now: number, { shardCheckMs }: StreamLimits): Decision<CloseOutcome> {
  const meta = liveTopic(view, now);
  if (meta === undefined) return { outcome: { kind: "absent" } };
  const next = view.head.last;
  if (meta.closed) return { outcome: { kind: meta.topic!.step === undefined ? "closed" : "closing", next } };
  const closing: Meta = { ...meta, closed: true, touchedAt: now, topic: { ...meta.topic!, step: "closing" } };
  const changes: Change[] = [put(metaTable, "", closing), { op: "remind", atMs: now + shardCheckMs }];
  return { outcome: { kind: "closing", next }, changes };
}

/** Begins to end a topic that nobody has used for its TTL, `usedAt` being the last use of a shard; or says when to look again. */
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

/** The last step of a topic: its shards are gone. Somebody may have used one that was ending, and then it is not the last. */
export function destroyTopicRule(view: View, topicId: string): Decision<DeleteOutcome> {
  const meta = view.get(metaTable, "");
  const isEnding = meta?.deleted || meta?.topic?.step === "ending";
  if (meta?.topic?.id !== topicId || !isEnding) return { outcome: { kind: "absent" } };
  return { outcome: { kind: "deleted", follows: followsOf(meta) }, changes: [{ op: "destroy" }] };
}
