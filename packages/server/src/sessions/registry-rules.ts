/**
 * The rules of a stream's registry: its subscribers, its cursor, its laggards. Pure; the roster submits them to the
 * registry's keeper.
 *
 * Invariants: the cursor moves only when every subscriber of that version has been served or is stored as a laggard. A
 * session that subscribed since then is served first.
 */
import { comparePositions, type Position, ZERO } from "@sluice/protocol";
import type { Message } from "../engine/contract.ts";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import type { Addressed } from "./session-rules.ts";
import {
  isBefore,
  isVersion,
  laggardTable,
  type Registry,
  registryTable,
  type Subscriber,
  subscriberTable,
} from "./state.ts";

export interface AddSubscriber extends Addressed {
  readonly session: string;
  /** The name under which the stream is followed. */
  readonly name: string;
  readonly start: Position;
  /** When a node checks that the stream is fanned out; null where no other node can leave it behind. */
  readonly remindAtMs: number | null;
}

export type AddOutcome =
  | {
      readonly kind: "added";
      readonly registry: Registry;
      readonly lagsAt: Position | undefined;
      /** The subscriber existed already, and nothing changed. */
      readonly isKnown: boolean;
    }
  /** The registry belongs to another stream at the same path: an earlier one, which must go first, or a later one. */
  | { readonly kind: "of-another"; readonly name: string };

export function addRule(view: View, now: number, input: AddSubscriber): Decision<AddOutcome> {
  const { session, name, start, incarnation, epoch, remindAtMs } = input;
  const known = view.get(registryTable, "");
  // Payloads of an earlier stream may remain because copies borrow them. Its subscribers are gone.
  if (known !== undefined && known.name !== name && known.count > 0) {
    return { outcome: { kind: "of-another", name: known.name } };
  }
  const changes: Change[] = [];
  const generation = known === undefined ? view.nextGeneration : view.head.generation;
  if (known === undefined) {
    changes.push({ op: "begin", generation, at: { generation, seq: 0 } });
    if (remindAtMs !== null) changes.push({ op: "remind", atMs: remindAtMs });
  }
  const registry: Registry =
    known?.name === name
      ? known
      : {
          name,
          cursor: start,
          seq: 0,
          version: known?.version ?? ZERO,
          count: 0,
          laggards: 0,
          departedBorrowers: known?.departedBorrowers ?? 0,
        };
  const before = known && view.get(subscriberTable, session);
  // This attempt is late: a later attempt of the same session has committed.
  if (before?.incarnation === incarnation && (before.epoch > epoch || (before.epoch === epoch && !before.left))) {
    const lagsAt = view.get(laggardTable, session)?.at;
    return { outcome: { kind: "added", registry, lagsAt, isKnown: true } };
  }
  const isSame = before?.incarnation === incarnation;
  const borrowsFrom = isSame ? before.borrowsFrom : known === undefined ? 1 : view.head.last.seq + 1;
  const lagsAt = isBefore(start, registry.cursor) ? start : undefined;
  const wasLagging = known !== undefined && view.get(laggardTable, session) !== undefined;
  if (lagsAt) changes.push(put(laggardTable, session, { at: lagsAt }));
  else if (wasLagging) changes.push(drop(laggardTable, session));
  const next: Registry = {
    ...registry,
    version: { generation, seq: registry.version.seq + 1 },
    count: registry.count + (before === undefined || before.left ? 1 : 0),
    departedBorrowers: registry.departedBorrowers - (before?.left ? 1 : 0),
    laggards: registry.laggards + (lagsAt ? 1 : 0) - (wasLagging ? 1 : 0),
  };
  changes.push(put(subscriberTable, session, { incarnation, epoch, since: now, borrowsFrom }));
  changes.push(put(registryTable, "", next));
  return { outcome: { kind: "added", registry: next, lagsAt, isKnown: false }, changes };
}

export interface RemoveSubscriber {
  readonly session: string;
  readonly incarnation: string;
  /** Undefined: any epoch, because the session has ended. */
  readonly epoch: number | undefined;
  /** The session is still read and borrows payloads. */
  readonly keepsBorrowing: boolean;
}

export type RemoveOutcome =
  | { readonly kind: "removed"; readonly registry: Registry; readonly sessions: readonly string[] }
  | { readonly kind: "absent" }
  /** That was the last subscriber, so the registry was destroyed. */
  | { readonly kind: "emptied" };

/** With `name`, only from the registry of the stream of that name. */
export function removeRule(
  view: View,
  inputs: readonly RemoveSubscriber[],
  name?: string | undefined,
): Decision<RemoveOutcome> {
  let registry = view.get(registryTable, "");
  if (registry === undefined || (name !== undefined && registry.name !== name)) return { outcome: { kind: "absent" } };
  const changes: Change[] = [];
  const sessions: string[] = [];
  for (const input of inputs) {
    const subscriber = view.get(subscriberTable, input.session);
    if (subscriber === undefined || !isMeant(subscriber, input)) continue;
    registry = takeOut(view, registry, input, subscriber, changes);
    sessions.push(input.session);
  }
  if (changes.length === 0) return { outcome: { kind: "absent" } };
  if (registry.count + registry.departedBorrowers === 0)
    return { outcome: { kind: "emptied" }, changes: [{ op: "destroy" }] };
  changes.push(put(registryTable, "", registry));
  return { outcome: { kind: "removed", registry, sessions }, changes };
}

function versionAfter({ version }: Registry, { head }: View): Position {
  return { generation: head.generation, seq: version.seq + 1 };
}

function isMeant(subscriber: Subscriber, { incarnation, epoch }: RemoveSubscriber): boolean {
  return subscriber.incarnation === incarnation && (epoch === undefined || subscriber.epoch === epoch);
}

function takeOut(
  view: View,
  registry: Registry,
  { session, keepsBorrowing }: RemoveSubscriber,
  subscriber: Subscriber,
  changes: Change[],
): Registry {
  const isLagging = view.get(laggardTable, session) !== undefined;
  if (isLagging) changes.push(drop(laggardTable, session));
  if (keepsBorrowing) changes.push(put(subscriberTable, session, { ...subscriber, left: true }));
  else changes.push(drop(subscriberTable, session));
  const was = subscriber.left ? 1 : 0;
  return {
    ...registry,
    version: versionAfter(registry, view),
    count: registry.count - 1 + was,
    departedBorrowers: registry.departedBorrowers - was + (keepsBorrowing ? 1 : 0),
    laggards: registry.laggards - (isLagging ? 1 : 0),
  };
}

export interface Advance {
  readonly name: string;
  /** The version whose subscribers were served. */
  readonly version: Position;
  readonly to: Position;
  /** The subscribers that were not served, with their positions. */
  readonly laggards: readonly (Addressed & { readonly session: string; readonly at: Position })[];
}

export type AdvanceOutcome =
  | { readonly kind: "advanced"; readonly registry: Registry; readonly lagging: Advance["laggards"] }
  /** A session subscribed, left or caught up meanwhile. Read the subscribers, serve the new ones, and submit again. */
  | { readonly kind: "changed" }
  | { readonly kind: "gone" };

export function advanceRule(view: View, { name, version, to, laggards }: Advance): Decision<AdvanceOutcome> {
  const registry = view.get(registryTable, "");
  if (registry === undefined || registry.name !== name) return { outcome: { kind: "gone" } };
  if (!isVersion(registry.version, version)) return { outcome: { kind: "changed" } };
  // Another node has advanced further, and it stored the laggards of its own rounds.
  if (comparePositions(to, registry.cursor) <= 0) return { outcome: { kind: "advanced", registry, lagging: [] } };
  const lagging = laggards.filter(
    ({ session, ...address }) =>
      isStill(view.get(subscriberTable, session), address) && view.get(laggardTable, session) === undefined,
  );
  const changes: Change[] = lagging.map(({ session, at }) => put(laggardTable, session, { at }));
  const next: Registry = {
    ...registry,
    cursor: to,
    seq: registry.seq + 1,
    version: lagging.length === 0 ? version : versionAfter(registry, view),
    laggards: registry.laggards + lagging.length,
  };
  changes.push(put(registryTable, "", next));
  return { outcome: { kind: "advanced", registry: next, lagging }, changes };
}

/** Whether this is the same subscriber, and not a later one of the same session id. */
function isStill(subscriber: Subscriber | undefined, { incarnation, epoch }: Addressed): boolean {
  return subscriber?.incarnation === incarnation && subscriber.epoch === epoch && !subscriber.left;
}

export type CaughtUpOutcome =
  | { readonly kind: "joined"; readonly registry: Registry }
  | { readonly kind: "behind" | "gone" };

/** Stores a laggard's position. At the cursor it rejoins the rounds. */
export function caughtUpRule(view: View, session: string, address: Addressed, at: Position): Decision<CaughtUpOutcome> {
  const registry = view.get(registryTable, "");
  const laggard = view.get(laggardTable, session);
  if (registry === undefined || laggard === undefined || !isStill(view.get(subscriberTable, session), address)) {
    return { outcome: { kind: "gone" } };
  }
  if (isBefore(at, registry.cursor)) {
    const outcome = { kind: "behind" } as const;
    return isBefore(laggard.at, at) ? { outcome, changes: [put(laggardTable, session, { at })] } : { outcome };
  }
  const next = { ...registry, version: versionAfter(registry, view), laggards: registry.laggards - 1 };
  const changes = [drop(laggardTable, session), put(registryTable, "", next)];
  return { outcome: { kind: "joined", registry: next }, changes };
}

/** Appends payloads that copies will borrow. Returns the position of the first; undefined if they no longer fit. */
export function lendRule(
  view: View,
  name: string,
  messages: readonly Message[],
  maxBytes: number,
): Decision<Position | undefined> {
  const registry = view.get(registryTable, "");
  const { head } = view;
  if (registry === undefined || registry.name !== name) return { outcome: undefined };
  if (head.bytes - head.startBytes > maxBytes) return { outcome: undefined };
  const first = { generation: head.generation, seq: head.last.seq + 1 };
  return { outcome: first, changes: [{ op: "append", messages }] };
}

/** Sets when the stream is checked again. */
export function remindRule(view: View, atMs: number | null): Decision<void> {
  if (view.get(registryTable, "") === undefined) return { outcome: undefined };
  return { outcome: undefined, changes: [{ op: "remind", atMs }] };
}

/** Trims payloads that no session borrows any more. `bytes` is the head's count at that position. */
export function trimRule(
  view: View,
  name: string,
  { position, bytes }: { readonly position: Position; readonly bytes: number },
): Decision<void> {
  const isIt = view.get(registryTable, "")?.name === name;
  if (!isIt || comparePositions(position, view.head.start) <= 0) return { outcome: undefined };
  return { outcome: undefined, changes: [{ op: "trim", through: position, bytes }] };
}
