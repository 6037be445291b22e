/**
 * The rules of a subscription's life and links: create, confirm, delete, link, unlink. Pure; the service and the linker
 * submit them to the subscription's keeper.
 */
import { BEGINNING, formatOffset } from "@sluice/protocol";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import {
  type Config,
  FRESH,
  type Link,
  linkTable,
  type Meta,
  metaTable,
  type State,
  stateTable,
  type Tail,
  wakeAt,
} from "./state.ts";

export interface Known {
  readonly meta: Meta;
  readonly state: State;
}

/** The subscription; undefined if it does not exist or is another incarnation. */
export function known(view: View, incarnation?: string): Known | undefined {
  const meta = view.get(metaTable, "");
  if (meta === undefined || (incarnation !== undefined && meta.incarnation !== incarnation)) return undefined;
  return { meta, state: view.get(stateTable, "") ?? FRESH };
}

export type ConfirmOutcome =
  | { readonly kind: "exists"; readonly meta: Meta }
  | { readonly kind: "differs" }
  | { readonly kind: "absent" };

/**
 * A repeated PUT. The newest address under which the creator reached the server is stored, because the server may have
 * moved.
 */
export function confirmRule(view: View, config: Config, base: string): Decision<ConfirmOutcome> {
  const meta = view.get(metaTable, "");
  if (meta === undefined) return { outcome: { kind: "absent" } };
  if (!isSameConfig(meta.config, config)) return { outcome: { kind: "differs" } };
  if (meta.base === base) return { outcome: { kind: "exists", meta } };
  const moved = { ...meta, base };
  return { outcome: { kind: "exists", meta: moved }, changes: [put(metaTable, "", moved)] };
}

function isSameConfig(a: Config, b: Config): boolean {
  return (
    a.type === b.type &&
    a.pattern === b.pattern &&
    a.webhookUrl === b.webhookUrl &&
    a.wakeStream === b.wakeStream &&
    a.leaseMs === b.leaseMs &&
    a.description === b.description &&
    a.streams.length === b.streams.length &&
    a.streams.every((path, i) => path === b.streams[i])
  );
}

export interface Create {
  readonly config: Config;
  readonly base: string;
  readonly incarnation: string;
  /** The explicit streams, and the streams that match the pattern now, each at its tail. */
  readonly explicit: readonly Tail[];
  readonly matching: readonly Tail[];
}

export type CreateOutcome =
  | { readonly kind: "created"; readonly meta: Meta }
  | { readonly kind: "too-many-links" }
  | Exclude<ConfirmOutcome, { kind: "absent" }>;

export function createRule(view: View, now: number, input: Create, maxLinks: number): Decision<CreateOutcome> {
  const { config, base, incarnation } = input;
  const confirmed = confirmRule(view, config, base);
  const { outcome } = confirmed;
  if (outcome.kind !== "absent") return { outcome, changes: confirmed.changes };

  const links = new Map<string, Link>();
  for (const { path, tail } of input.matching)
    links.set(path, { acked: formatOffset(tail), explicit: false, glob: true });
  for (const { path, tail } of input.explicit) {
    links.set(path, { acked: formatOffset(tail), explicit: true, glob: links.has(path) });
  }
  if (links.size > maxLinks) return { outcome: { kind: "too-many-links" } };

  const meta: Meta = { config, createdAt: now, incarnation, base };
  const changes: Change[] = [put(metaTable, "", meta), put(stateTable, "", { ...FRESH, links: links.size })];
  for (const [path, link] of links) changes.push(put(linkTable, path, link));
  return { outcome: { kind: "created", meta }, changes };
}

export function deleteRule(view: View): Decision<"deleted" | "absent"> {
  if (view.get(metaTable, "") === undefined) return { outcome: "absent" };
  return { outcome: "deleted", changes: [{ op: "destroy" }] };
}

export interface Note {
  readonly incarnation: string;
  /** Streams that were deleted. */
  readonly unlink: readonly string[];
  /** Streams that match the pattern. Those not linked yet were created after the subscription. */
  readonly link: readonly string[];
}

export type NoteOutcome =
  | { readonly kind: "absent" }
  /** `refused` links found no room; `isBusy` means that a wake is in progress. */
  | { readonly kind: "noted"; readonly isBusy: boolean; readonly refused: number };

/** Stores what happened to streams: unlinks the deleted ones, then links the new ones. */
export function noteRule(view: View, now: number, note: Note, maxLinks: number): Decision<NoteOutcome> {
  const { incarnation, unlink, link } = note;
  const found = known(view, incarnation);
  if (found === undefined) return { outcome: { kind: "absent" } };
  const { state } = found;
  const changes: Change[] = [];
  let links = state.links;
  let refused = 0;
  const gone = new Set<string>();
  for (const path of unlink) {
    if (gone.has(path) || view.get(linkTable, path) === undefined) continue;
    gone.add(path);
    changes.push(drop(linkTable, path));
    links--;
  }
  for (const path of link) {
    const existing = gone.has(path) ? undefined : view.get(linkTable, path);
    if (existing?.glob) continue;
    if (existing === undefined && links >= maxLinks) {
      refused++;
      continue;
    }
    if (existing === undefined) links++;
    changes.push(put(linkTable, path, existing ? { ...existing, glob: true } : bornLater()));
  }
  if (links !== state.links) changes.push(put(stateTable, "", { ...state, links }));
  return { outcome: { kind: "noted", isBusy: wakeAt(state, now) !== undefined, refused }, changes };
}

function bornLater(): Link {
  return { acked: BEGINNING, explicit: false, glob: true };
}

/** Links streams by name, all or none. Existing links keep their offset. */
export function addStreamsRule(
  view: View,
  streams: readonly Tail[],
  maxLinks: number,
): Decision<"added" | "absent" | "too-many-links"> {
  const found = known(view);
  if (found === undefined) return { outcome: "absent" };
  const changes: Change[] = [];
  let { links } = found.state;
  for (const { path, tail } of streams) {
    const existing = view.get(linkTable, path);
    if (existing?.explicit) continue;
    if (existing === undefined) links++;
    const link = existing ?? { acked: formatOffset(tail), glob: false };
    changes.push(put(linkTable, path, { ...link, explicit: true }));
  }
  if (links > maxLinks) return { outcome: "too-many-links" };
  if (changes.length > 0) changes.push(put(stateTable, "", { ...found.state, links }));
  return { outcome: "added", changes };
}

/** Removes an explicit link. A link that the pattern made stays. */
export function removeStreamRule(view: View, path: string): Decision<"removed" | "absent"> {
  const found = known(view);
  if (found === undefined) return { outcome: "absent" };
  const link = view.get(linkTable, path);
  if (!link?.explicit) return { outcome: "removed" };
  if (link.glob) return { outcome: "removed", changes: [put(linkTable, path, { ...link, explicit: false })] };
  const state = { ...found.state, links: found.state.links - 1 };
  return { outcome: "removed", changes: [drop(linkTable, path), put(stateTable, "", state)] };
}
