/**
 * The rules of a group's entity: creation, terms of leaders, progress, seek. Pure; the service and the leader process submit them
 * to the group's keeper, a leader under its ownership.
 *
 * Invariants: a leader changes rows only in its own term and edition, so that a seek or a deletion that came in between is
 * noticed by the next commit and not overwritten. Only a leader writes the rows of streams.
 */
import { comparePositions, type Position, ZERO } from "@sluice/protocol";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { blockKey, blockTable } from "../leases/block-table.ts";
import type { StreamRow } from "./leader-state.ts";
import {
  type GroupConfig,
  type GroupMeta,
  metaTable,
  type Redrive,
  redriveTable,
  type Start,
  streamTable,
} from "./state.ts";

/** Where a group begins, as it was asked for. */
export type AskedStart = Start | { readonly kind: "latest" };

export interface Declare {
  readonly start: AskedStart;
  /** Undefined: the caller has no opinion, and an existing group stays as it is. */
  readonly config?: GroupConfig | undefined;
}

export type DeclareOutcome =
  | { readonly kind: "created" | "exists"; readonly meta: GroupMeta }
  /** The group has another configuration. */
  | { readonly kind: "differs"; readonly meta: GroupMeta };

export function declareRule(view: View, now: number, { start, config }: Declare): Decision<DeclareOutcome> {
  const known = view.get(metaTable, "");
  if (known !== undefined) {
    const isSame = config === undefined || isSameConfig(config, known.config);
    return { outcome: { kind: isSame ? "exists" : "differs", meta: known } };
  }
  const meta: GroupMeta = {
    createdAt: now,
    config: config ?? {},
    start: startAt(start, now),
    edition: 1,
    term: 0,
    isClean: true,
  };
  return { outcome: { kind: "created", meta }, changes: [put(metaTable, "", meta)] };
}

function startAt(start: AskedStart, now: number): Start {
  return start.kind === "latest" ? { kind: "time", atMs: now } : start;
}

function isSameConfig(a: GroupConfig, b: GroupConfig): boolean {
  return a.leaseMs === b.leaseMs && a.maxAttempts === b.maxAttempts && a.deadLetter === b.deadLetter;
}

/** `wasClean`: no borrower of an earlier leader can be left. */
export type TermOutcome =
  | { readonly kind: "begun"; readonly meta: GroupMeta; readonly wasClean: boolean }
  | { readonly kind: "absent" };

/** A leader begins. Submitted under its ownership, before it reads any row. */
export function beginTermRule(view: View, leader: string): Decision<TermOutcome> {
  const known = view.get(metaTable, "");
  if (known === undefined) return { outcome: { kind: "absent" } };
  const meta: GroupMeta = { ...known, term: known.term + 1, isClean: false, leader };
  return { outcome: { kind: "begun", meta, wasClean: known.isClean }, changes: [put(metaTable, "", meta)] };
}

/** The leader of this term ends, and has no members. */
export function endTermRule(view: View, term: number): Decision<void> {
  const meta = view.get(metaTable, "");
  const isOwn = meta?.term === term;
  if (!isOwn) return { outcome: undefined };
  const { leader: _, ...rest } = meta;
  return { outcome: undefined, changes: [put(metaTable, "", { ...rest, isClean: true })] };
}

/** `changed`: the group was deleted or a seek came: this leader's idea of it is over. */
export type StoreOutcome = "stored" | "changed";

export function storeRule(
  view: View,
  { term, edition }: Pick<GroupMeta, "term" | "edition">,
  rows: ReadonlyMap<string, StreamRow | undefined>,
): Decision<StoreOutcome> {
  const meta = view.get(metaTable, "");
  if (meta?.term !== term || meta.edition !== edition) return { outcome: "changed" };
  const changes: Change[] = [];
  for (const [path, row] of rows) {
    if (row === undefined) {
      changes.push(drop(streamTable, path));
      continue;
    }
    const { blocks = NO_BLOCKS, ...stream } = row;
    changes.push(put(streamTable, path, { ...stream, edition }));
    for (const [number, block] of blocks) {
      const key = blockKey(path, edition, number);
      changes.push(block === undefined ? drop(blockTable, key) : put(blockTable, key, block));
    }
  }
  return { outcome: "stored", changes };
}

const NO_BLOCKS: NonNullable<StreamRow["blocks"]> = new Map();

/** Removes rows of blocks that no leader will read again. */
export function dropBlocksRule(keys: readonly string[]): Decision<void> {
  return { outcome: undefined, changes: keys.map((key) => drop(blockTable, key)) };
}

/** Moves the group, whatever it has processed. The commit of a leader that does not know yet is refused. */
export function seekRule(view: View, now: number, to: AskedStart): Decision<"sought" | "absent"> {
  const meta = view.get(metaTable, "");
  if (meta === undefined) return { outcome: "absent" };
  const moved: GroupMeta = { ...meta, start: startAt(to, now), edition: meta.edition + 1 };
  return { outcome: "sought", changes: [put(metaTable, "", moved)] };
}

/** `producer` counts at the first redrive under this key only. */
export function beginRedriveRule(view: View, key: string, producer: string): Decision<Redrive> {
  const known = view.get(redriveTable, key);
  if (known !== undefined) return { outcome: known };
  const begun = { through: ZERO, producer };
  return { outcome: begun, changes: [put(redriveTable, key, begun)] };
}

/** Two redrives at once keep the later place. */
export function redrivenRule(view: View, key: string, through: Position): Decision<void> {
  const known = view.get(redriveTable, key);
  if (known === undefined || comparePositions(through, known.through) <= 0) return { outcome: undefined };
  return { outcome: undefined, changes: [put(redriveTable, key, { ...known, through })] };
}

export function deleteRule(view: View): Decision<"deleted" | "absent"> {
  if (view.get(metaTable, "") === undefined) return { outcome: "absent" };
  return { outcome: "deleted", changes: [{ op: "destroy" }] };
}
