/**
 * The rules of a stream's life: create, slide the TTL, delete, expire, hold, and the source's side of a fork. Pure;
 * `Streams`, `Forks` and the sweep submit them to the stream's keeper.
 *
 * Invariants: a repeated PUT changes nothing. A stream with forks is never destroyed. No stream ends before its TTL or
 * expiry.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { type Message, NO_HEAD } from "../engine/contract.ts";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { nextAgeCheck } from "../engine/trimming.ts";
import type { StreamLimits } from "./defaults.ts";
import { isFollowedAs } from "./following.ts";
import { cutAtCreation, cutByAge } from "./retention.ts";
import {
  endsAt,
  type Follows,
  type ForkOrigin,
  followsOf,
  forkTable,
  hasForks,
  holdsTable,
  isSameType,
  lifeOf,
  type Meta,
  metaTable,
  type Retention,
  type StreamConfig,
  slides,
} from "./state.ts";

export interface Create {
  readonly config: StreamConfig;
  readonly closed: boolean;
  readonly payloads: readonly Uint8Array[];
  readonly origin?: ForkOrigin | undefined;
  /** Creates a sharded topic of this id, whose shards do not exist yet. */
  readonly topicId?: string | undefined;
  /** Creates a shard of the topic of this id. */
  readonly shardOf?: string | undefined;
  /** Requests a sweep after this time, whatever other reminder there is. */
  readonly checkMs?: number | undefined;
}

export type CreateOutcome =
  | { readonly kind: "created"; readonly meta: Meta; readonly next: Position }
  | { readonly kind: "exists"; readonly meta: Meta; readonly next: Position }
  | { readonly kind: "differs"; readonly what: string }
  | { readonly kind: "gone" }
  /** An expired stream still lies here. End it first, then submit again. */
  | { readonly kind: "over" };

/** The same through the service, which also makes forks and shards. */
export type CreateResult =
  | Exclude<CreateOutcome, { kind: "over" }>
  | {
      readonly kind:
        | "source-absent"
        | "source-gone"
        | "source-sharded"
        | "fork-ahead"
        | "fork-trimmed"
        | "fork-unknown"
        | "fork-sub-offset"
        | "fork-too-deep";
    }
  | { readonly kind: "source-type"; readonly contentType: string }
  | { readonly kind: "bad-fork-offset" }
  /** The topic could not be created, because another stream occupies this shard's path. */
  | { readonly kind: "shard-taken"; readonly path: string };

export function createRule(view: View, now: number, input: Create): Decision<CreateOutcome> {
  const existing = view.get(metaTable, "");
  if (existing !== undefined) return { outcome: compareWith(existing, view, now, input) };

  const { config, closed, payloads, origin, topicId, shardOf, checkMs } = input;
  const through = origin?.lineage.at(-1)?.through;
  // A fork's own messages sort after the messages it inherits, and their generation tells them from those.
  const generation = Math.max(view.nextGeneration, (through?.generation ?? 0) + 1);
  const base = through ?? { generation, seq: 0 };
  const topic = topicId === undefined ? undefined : ({ id: topicId, step: "making" } as const);
  const meta: Meta = { config, createdAt: now, touchedAt: now, closed, origin, topic, shardOf };
  const messages: Message[] = payloads.map((payload) => ({ payload, at: now }));

  const changes: Change[] = [{ op: "begin", generation, at: base }, put(metaTable, "", meta)];
  if (messages.length > 0) changes.push({ op: "append", messages });
  const head = { ...NO_HEAD, generation, last: base, start: base };
  changes.push(...cutAtCreation(head, config.retention, messages, now));
  const due = nextCheck(meta, { ...view.head, at: messages.length > 0 ? now : 0 }, now);
  const check = checkMs === undefined ? due : earlier(due, now + checkMs);
  if (check !== undefined) changes.push({ op: "remind", atMs: check });
  const next = messages.length > 0 ? { generation, seq: base.seq + messages.length } : base;
  return { outcome: { kind: "created", meta, next }, changes };
}

/** Compares a repeated PUT with the stream that exists; `vanished` when none does. Creates nothing. */
export function compareRule(
  view: View,
  now: number,
  input: Create,
): Decision<Exclude<CreateOutcome, { kind: "created" | "over" }> | { readonly kind: "vanished" }> {
  const existing = view.get(metaTable, "");
  const outcome = existing && compareWith(existing, view, now, input);
  return { outcome: outcome === undefined || outcome.kind === "over" ? { kind: "vanished" } : outcome };
}

function compareWith(
  existing: Meta,
  view: View,
  now: number,
  input: Create,
): Exclude<CreateOutcome, { kind: "created" }> {
  const life = lifeOf(existing, view.head, now);
  if (life === "absent" || existing.topic?.step === "ending") return { kind: "over" };
  if (life === "gone") return { kind: "gone" };
  const what = difference(existing, input);
  if (what !== undefined) return { kind: "differs", what };
  return { kind: "exists", meta: existing, next: view.head.last };
}

function difference(existing: Meta, { config, closed, origin }: Create): string | undefined {
  if (existing.config.shards !== config.shards) return "Stream-Shards";
  if (!isSameType(existing.config.contentType, config.contentType)) return "Content-Type";
  if (existing.config.ttlSeconds !== config.ttlSeconds) return "Stream-TTL";
  if (existing.config.expiresAt !== config.expiresAt) return "Stream-Expires-At";
  const retention = retentionDifference(existing.config.retention, config.retention);
  if (retention !== undefined) return retention;
  if (existing.closed !== closed) return "Stream-Closed";
  if (existing.origin?.source !== origin?.source) return "Stream-Forked-From";
  if (existing.origin?.askedOffset !== origin?.askedOffset) return "Stream-Fork-Offset";
  if (existing.origin?.askedSubOffset !== origin?.askedSubOffset) return "Stream-Fork-Sub-Offset";
  return undefined;
}

function retentionDifference(a: Retention = {}, b: Retention = {}): string | undefined {
  if (a.maxMessages !== b.maxMessages) return "Stream-Max-Messages";
  if (a.maxBytes !== b.maxBytes) return "Stream-Max-Bytes";
  if (a.maxAgeMs !== b.maxAgeMs) return "Stream-Max-Age-Seconds";
  return undefined;
}

/** A read slides the TTL. The slide is stored only when it moves the end far enough. */
export function touchRule(view: View, now: number): Decision<void> {
  const meta = view.get(metaTable, "");
  if (meta === undefined || lifeOf(meta, view.head, now) !== "live" || !slides(meta, view.head, now)) {
    return { outcome: undefined };
  }
  return { outcome: undefined, changes: [put(metaTable, "", { ...meta, touchedAt: now })] };
}

/** `origin` names the source that must drop the row of this fork. */
export type DeleteOutcome =
  | { readonly kind: "deleted"; readonly origin?: ForkOrigin | undefined; readonly follows?: Follows | undefined }
  | { readonly kind: "kept-for-forks"; readonly follows?: Follows | undefined }
  /** The topic is invisible to clients from now on; it is destroyed after its last shard. */
  | { readonly kind: "ending"; readonly meta: Meta }
  | { readonly kind: "absent" }
  | { readonly kind: "gone" };

export function deleteRule(view: View, now: number, limits: StreamLimits): Decision<DeleteOutcome> {
  const meta = view.get(metaTable, "");
  const life = lifeOf(meta, view.head, now);
  if (meta === undefined || life === "absent") return { outcome: { kind: "absent" } };
  if (life === "gone") return { outcome: { kind: "gone" } };
  return remove(meta, now, limits);
}

/**
 * Ends an expired stream; otherwise cuts by age and stores when to check again. `Sharded` decides about a live topic.
 */
export function sweepRule(
  view: View,
  now: number,
  limits: StreamLimits,
  checkForksAt?: number,
): Decision<DeleteOutcome | { readonly kind: "kept" } | { readonly kind: "topic"; readonly meta: Meta }> {
  const meta = view.get(metaTable, "");
  if (meta === undefined) return { outcome: { kind: "absent" } };
  if (meta.topic && lifeOf(meta, view.head, now) === "live") return { outcome: { kind: "topic", meta } };
  const end = endsAt(meta, view.head);
  if (end !== undefined && now >= end && !meta.deleted) return remove(meta, now, limits);
  if (meta.deleted && !hasForks(meta)) return remove(meta, now, limits);
  const { retention } = meta.config;
  const changes = retention?.maxAgeMs === undefined ? [] : [...cutByAge(view, retention, now, limits.holdBytes)];
  changes.push({ op: "remind", atMs: earlier(nextCheck(meta, view.head, now), checkForksAt) ?? null });
  return { outcome: { kind: "kept" }, changes };
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.min(a, b);
}

export function remove(meta: Meta, now: number, { forkCheckMs, shardCheckMs }: StreamLimits): Decision<DeleteOutcome> {
  if (meta.topic) {
    // The reminder stays until the last shard is gone, so that a crash in between leaves no shard behind.
    const remind: Change = { op: "remind", atMs: now + shardCheckMs };
    return { outcome: { kind: "ending", meta }, changes: [put(metaTable, "", { ...meta, deleted: true }), remind] };
  }
  if (hasForks(meta)) {
    const remind: Change = { op: "remind", atMs: now + forkCheckMs };
    const changes = [put(metaTable, "", { ...meta, deleted: true }), remind];
    return { outcome: { kind: "kept-for-forks", follows: followsOf(meta) }, changes };
  }
  return { outcome: { kind: "deleted", origin: meta.origin, follows: followsOf(meta) }, changes: [{ op: "destroy" }] };
}

export function nextCheck(meta: Meta, head: View["head"], now: number): number | undefined {
  if (meta.deleted) return undefined;
  const end = endsAt(meta, head);
  if (meta.topic) return end;
  const age = meta.config.retention && nextAgeCheck(meta.config.retention, now);
  if (end === undefined) return age;
  return age === undefined ? end : Math.min(end, age);
}

export interface AddFork {
  readonly path: string;
  readonly id: string;
  /** The generation of the source that the caller read. */
  readonly generation: number;
  /** The fork reads this log up to here. */
  readonly through: Position;
  readonly contentType: string;
}

export type AddForkOutcome =
  | { readonly kind: "added" }
  | { readonly kind: "absent" | "gone" | "ahead" | "wrong-type" }
  /** Since the caller read the source, it was created anew or a failover raised its generation. Read it again. */
  | { readonly kind: "changed" };

/**
 * The source stores the fork's row before the fork exists, so that retention keeps the messages that the fork will
 * read.
 */
export function addForkRule(
  view: View,
  now: number,
  input: AddFork,
  { forkCheckMs }: StreamLimits,
): Decision<AddForkOutcome> {
  const meta = view.get(metaTable, "");
  const { head } = view;
  const life = lifeOf(meta, head, now);
  if (meta === undefined || life === "absent") return { outcome: { kind: "absent" } };
  if (life === "gone") return { outcome: { kind: "gone" } };
  if (!isSameType(meta.config.contentType, input.contentType)) return { outcome: { kind: "wrong-type" } };
  if (head.generation !== input.generation) return { outcome: { kind: "changed" } };
  if (comparePositions(input.through, head.last) > 0) return { outcome: { kind: "ahead" } };

  const forks = { count: (meta.forks?.count ?? 0) + 1, needAfter: meta.forks?.needAfter ?? head.start };
  return {
    outcome: { kind: "added" },
    changes: [
      put(forkTable, input.id, { path: input.path, since: now }),
      put(metaTable, "", { ...meta, forks }),
      // If the fork is never created, the sweep finds that out.
      { op: "remind", atMs: Math.min(now + forkCheckMs, nextCheck(meta, head, now) ?? Number.POSITIVE_INFINITY) },
    ],
  };
}

/** Drops the row of a fork that is gone. The last fork of a deleted source removes the source too. */
export function dropForkRule(
  view: View,
  now: number,
  id: string,
  limits: StreamLimits,
): Decision<DeleteOutcome | { readonly kind: "kept" }> {
  const meta = view.get(metaTable, "");
  const row = view.get(forkTable, id);
  if (meta === undefined || row === undefined) return { outcome: { kind: "kept" } };
  const count = (meta.forks?.count ?? 1) - 1;
  const rest: Meta = { ...meta, forks: count === 0 ? undefined : { ...meta.forks!, count } };
  if (count === 0 && meta.deleted) return remove(rest, now, limits);
  return { outcome: { kind: "kept" }, changes: [drop(forkTable, id), put(metaTable, "", rest)] };
}

/** Reminds the source to check its forks soon, because one of them is about to go. */
export function watchForksRule(view: View, now: number, { forkCheckMs }: StreamLimits): Decision<void> {
  const meta = view.get(metaTable, "");
  if (meta === undefined) return { outcome: undefined };
  const check = Math.min(now + forkCheckMs, nextCheck(meta, view.head, now) ?? Number.POSITIVE_INFINITY);
  return { outcome: undefined, changes: [{ op: "remind", atMs: check }] };
}

/**
 * A holder needs the messages after `position`; undefined releases the hold. Retention waits for the lowest hold.
 * With `name`, the hold applies only to the stream that the holder follows under this name. It would never release a
 * hold on a later stream at the same path.
 */
export function holdRule(
  view: View,
  now: number,
  holder: string,
  position: Position | undefined,
  maxHolds: number,
  name?: string | undefined,
): Decision<"held" | "released" | "absent" | "too-many"> {
  const meta = view.get(metaTable, "");
  if (meta === undefined || lifeOf(meta, view.head, now) !== "live") return { outcome: "absent" };
  if (name !== undefined && !isFollowedAs(meta, holder, name)) return { outcome: "absent" };
  const outcome = position ? "held" : "released";
  // Without retention nothing is ever trimmed, so a hold would only cost commits.
  if (meta.config.retention === undefined) return { outcome };
  const holds = { ...view.get(holdsTable, "") };
  if (isAt(holds[holder], position)) return { outcome };
  if (position === undefined) delete holds[holder];
  else holds[holder] = position;
  if (Object.keys(holds).length > maxHolds) return { outcome: "too-many" };
  return { outcome, changes: [put(holdsTable, "", holds)] };
}

function isAt(a: Position | undefined, b: Position | undefined): boolean {
  return a === undefined || b === undefined ? a === b : comparePositions(a, b) === 0;
}
