/**
 * Reads that span entities or rows: names, the projects of a kind, the rows of a table in order, due reminders. The engine calls
 * it.
 *
 * Invariants: every read merges the overlay (changes that the store lacks) with the store. All are synchronous and bounded by
 * `limit`.
 */
import { compareBytewise } from "../../core/bytewise.ts";
import type { Entity, Listing, Row } from "../contract.ts";
import { IN_STORE } from "./entity-state.ts";
import {
  afterPrefix,
  afterProject,
  DIRECTORY_END,
  DIRECTORY_FIRST,
  directoryKey,
  justAfter,
  projectOf,
  reminderKey,
  reminderNumber,
  rowKey,
  rowSuffix,
} from "./keys.ts";
import type { Overlay } from "./overlay.ts";
import { unseal } from "./sealed.ts";
import type { Reading } from "./store.ts";
import type { View, Viewer } from "./view.ts";

export class Directory {
  constructor(
    private readonly store: Reading,
    private readonly overlay: Overlay,
    private readonly viewer: Viewer,
  ) {}

  list(project: string, kind: string, prefix: string, after: string, limit: number): Listing {
    const appeared: string[] = [];
    const vanished = new Set<string>();
    for (const { entity, exists } of this.overlay.renamed) {
      if (entity.project !== project || entity.kind !== kind || !entity.id.startsWith(prefix)) continue;
      if (exists && compareBytewise(entity.id, after) > 0) appeared.push(entity.id);
      else if (!exists) vanished.add(entity.id);
    }
    const stored: string[] = [];
    const base = directoryKey(project, kind, "");
    const [from, to] = rangeAfter(base, prefix, after);
    this.store.keys(from, to, (key) => {
      const id = key.toString("utf8", base.length);
      if (!vanished.has(id)) stored.push(id);
      return stored.length <= limit;
    });
    const ids = [...new Set([...stored, ...appeared])].sort(compareBytewise);
    const page = ids.slice(0, limit);
    return { ids: page, next: ids.length > limit ? page.at(-1) : undefined };
  }

  /** Jumps from project to project, so that the cost does not depend on the number of entities. */
  projects(kind: string): string[] {
    const found = new Set<string>();
    for (const { entity, exists } of this.overlay.renamed)
      if (exists && entity.kind === kind) found.add(entity.project);
    let from: Buffer = DIRECTORY_FIRST;
    for (;;) {
      let first: Buffer | undefined;
      this.store.keys(from, DIRECTORY_END, (key) => {
        first = key;
        return false;
      });
      if (first === undefined) return [...found].sort(compareBytewise);
      const project = projectOf(first);
      if (!found.has(project) && this.list(project, kind, "", "", 1).ids.length > 0) found.add(project);
      from = afterProject(project);
    }
  }

  rows(e: Entity, view: View, table: string, after: string, limit: number): Row[] {
    if (view.number === 0) return [];
    const changed = changedRows(view, table, after);
    const rows: Row[] = [];
    const base = rowKey(view.number, rowSuffix(table, ""));
    const [from, to] = rangeAfter(base, "", after);
    this.store.scan(from, to, (storeKey, value) => {
      const key = storeKey.toString("utf8", base.length);
      if (!changed.has(key)) {
        rows.push({
          key,
          value: unseal(storeKey, value, () => `row ${table}/${key} of ${e.key}`),
        });
      }
      return rows.length < limit;
    });
    for (const key of changed) {
      const value = this.viewer.row(e, view, { table, key });
      if (value !== undefined) rows.push({ key, value });
    }
    return rows.sort((a, b) => compareBytewise(a.key, b.key)).slice(0, limit);
  }

  due(nowMs: number, limit: number): Entity[] {
    const due: { atMs: number; entity: Entity }[] = [];
    for (const { entity, remindAtMs } of this.overlay.reminded) {
      if (remindAtMs !== null && remindAtMs <= nowMs) due.push({ atMs: remindAtMs, entity });
    }
    // The loop below skips only entries of reminded entities, so this many are enough.
    const enough = limit + this.overlay.reminded.size;
    const keys: Buffer[] = [];
    this.store.keys(reminderKey(0, 0), reminderKey(nowMs + 1, 0), (key) => keys.push(key) < enough);
    for (const key of keys) {
      const row = this.viewer.headRow(reminderNumber(key));
      if (row === undefined || row.remindAtMs === null || row.remindAtMs > nowMs) continue;
      const state = this.overlay.states.get(row.entity.key);
      if (state === undefined || !this.overlay.reminded.has(state))
        due.push({ atMs: row.remindAtMs, entity: row.entity });
    }
    due.sort((a, b) => a.atMs - b.atMs);
    return due.slice(0, limit).map(({ entity }) => entity);
  }
}

/** The keys after `after` whose rows differ from the store's. */
function changedRows({ state }: View, table: string, after: string): Set<string> {
  const keys = new Set<string>();
  for (const [name, { lsn }] of state?.rows ?? []) {
    if (lsn === IN_STORE || !name.startsWith(`${table}\0`)) continue;
    const key = name.slice(table.length + 1);
    if (compareBytewise(key, after) > 0) keys.add(key);
  }
  return keys;
}

/** The bounds of a scan for texts behind `base` that start with `prefix` and come after `after`. */
function rangeAfter(base: Buffer, prefix: string, after: string): [Buffer, Buffer] {
  const first = Buffer.concat([base, Buffer.from(prefix)]);
  const past = justAfter(Buffer.concat([base, Buffer.from(after)]));
  return [first.compare(past) > 0 ? first : past, afterPrefix(first)];
}
