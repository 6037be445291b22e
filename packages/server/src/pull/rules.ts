/**
 * The rules of a subscription's entity: creation, terms of dispatchers, acknowledgements, options, seek, the end of its topic.
 * Pure; the service and the dispatcher submit them to the entity's keeper, a dispatcher under its ownership.
 *
 * Invariants: a dispatcher changes rows only in its own term and edition, so that a seek or a deletion that came in between is
 * noticed by its next commit and not overwritten. What a dispatcher must notice raises the revision.
 */
import type { Position } from "@sluice/protocol";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import type { Block } from "../leases/block-row.ts";
import { blockKey, blockTable } from "../leases/block-table.ts";
import type { SubscriptionChange, SubscriptionOptions } from "./contract.ts";
import { logTable, metaTable, type PullerMeta, type TopicRef } from "./state.ts";

/** Acknowledgements of one log: its floor, and the blocks above it that have changed; an undefined one is dropped. */
export interface LogState {
  readonly at: Position;
  /** As in the row. */
  readonly marked?: Position | undefined;
  readonly blocks: ReadonlyMap<number, Block | undefined>;
}

export interface Create {
  readonly topic: TopicRef;
  readonly options: SubscriptionOptions;
  readonly logs: ReadonlyMap<string, Position>;
}

export interface CreateOutcome {
  readonly kind: "created" | "exists";
  readonly meta: PullerMeta;
}

/** What a subscription that is used slides: a tenth of its life at a time, so that use costs few commits. */
const SLIDE_PART = 10;

export function createRule(view: View, now: number, { topic, options, logs }: Create): Decision<CreateOutcome> {
  const known = view.get(metaTable, "");
  if (known !== undefined) return { outcome: { kind: "exists", meta: known } };
  const meta: PullerMeta = {
    topic,
    createdAt: now,
    options,
    edition: 1,
    term: 0,
    revision: 1,
    isTopicDeleted: false,
    isDetached: false,
    usedAt: now,
  };
  const changes: Change[] = [...stored(meta)];
  for (const [path, at] of logs) changes.push(put(logTable, path, { edition: 1, at }));
  return { outcome: { kind: "created", meta }, changes };
}

function stored(meta: PullerMeta): Change[] {
  const { expiresAfterMs } = meta.options;
  const atMs = expiresAfterMs === undefined ? null : meta.usedAt + expiresAfterMs;
  return [put(metaTable, "", meta), { op: "remind", atMs }];
}

/** A dispatcher begins. Submitted under its ownership, before it reads any row. */
export function beginTermRule(view: View, now: number, node: string): Decision<PullerMeta | undefined> {
  const known = view.get(metaTable, "");
  if (known === undefined) return { outcome: undefined };
  const meta: PullerMeta = { ...known, term: known.term + 1, node, usedAt: now };
  return { outcome: meta, changes: stored(meta) };
}

/** `changed`: a seek, a deletion or another dispatcher came in between, and nothing was stored. */
export type StoreOutcome = "stored" | "changed";

export function storeRule(
  view: View,
  now: number,
  { term, edition }: Pick<PullerMeta, "term" | "edition">,
  logs: ReadonlyMap<string, LogState>,
): Decision<StoreOutcome> {
  const meta = view.get(metaTable, "");
  if (meta?.term !== term || meta.edition !== edition) return { outcome: "changed" };
  const changes: Change[] = logChanges(edition, logs);
  if (isSliding(meta, now)) changes.push(...stored({ ...meta, usedAt: now }));
  return { outcome: "stored", changes };
}

/** Whether a use of the subscription at this time must be stored. */
export function isSliding({ usedAt, options: { expiresAfterMs } }: PullerMeta, now: number): boolean {
  return expiresAfterMs !== undefined && now - usedAt > expiresAfterMs / SLIDE_PART;
}

export function logChanges(edition: number, logs: ReadonlyMap<string, LogState>): Change[] {
  const changes: Change[] = [];
  for (const [path, { at, marked, blocks }] of logs) {
    changes.push(put(logTable, path, { edition, at, marked }));
    for (const [number, block] of blocks) {
      const key = blockKey(path, edition, number);
      changes.push(block === undefined ? drop(blockTable, key) : put(blockTable, key, block));
    }
  }
  return changes;
}

/** Removes rows of blocks that no dispatcher will read again. */
export function dropBlocksRule(keys: readonly string[]): Decision<void> {
  return { outcome: undefined, changes: keys.map((key) => drop(blockTable, key)) };
}

/** Moves the subscription, whatever is acknowledged. The commit of a dispatcher that does not know yet is refused. */
export function seekRule(view: View, logs: ReadonlyMap<string, LogState>): Decision<PullerMeta | undefined> {
  const known = view.get(metaTable, "");
  if (known === undefined) return { outcome: undefined };
  const meta: PullerMeta = { ...known, edition: known.edition + 1, revision: known.revision + 1 };
  return { outcome: meta, changes: [put(metaTable, "", meta), ...logChanges(meta.edition, logs)] };
}

export function updateRule(view: View, change: SubscriptionChange): Decision<PullerMeta | undefined> {
  const known = view.get(metaTable, "");
  if (known === undefined) return { outcome: undefined };
  const options = { ...known.options, ...change };
  const isSameTopic = options.deadLetter?.topic === known.options.deadLetter?.topic;
  const redrivenTo = isSameTopic ? known.redrivenTo : undefined;
  const meta: PullerMeta = { ...known, options, redrivenTo, revision: known.revision + 1 };
  return { outcome: meta, changes: stored(meta) };
}

/** Its topic is gone, or it leaves its topic: nothing is delivered any more. */
export function endRule(view: View, why: "isTopicDeleted" | "isDetached"): Decision<PullerMeta | undefined> {
  const known = view.get(metaTable, "");
  if (known === undefined || known[why]) return { outcome: known };
  const meta: PullerMeta = { ...known, [why]: true, revision: known.revision + 1 };
  return { outcome: meta, changes: [put(metaTable, "", meta)] };
}

export function redrivenRule(view: View, redrivenTo: Position): Decision<void> {
  const known = view.get(metaTable, "");
  return { outcome: undefined, changes: known && [put(metaTable, "", { ...known, redrivenTo })] };
}

export function deleteRule(view: View): Decision<PullerMeta | undefined> {
  const meta = view.get(metaTable, "");
  return { outcome: meta, changes: meta && [{ op: "destroy" }] };
}

/** Whether the subscription was not used for as long as it may be; the service then deletes it. */
export function expireRule(view: View, now: number, isUsed: boolean): Decision<boolean> {
  const meta = view.get(metaTable, "");
  if (meta === undefined) return { outcome: false, changes: [{ op: "remind", atMs: null }] };
  const { expiresAfterMs } = meta.options;
  if (isUsed) return { outcome: false, changes: stored({ ...meta, usedAt: now }) };
  if (expiresAfterMs !== undefined && now >= meta.usedAt + expiresAfterMs) return { outcome: true };
  return { outcome: false, changes: stored(meta) };
}
