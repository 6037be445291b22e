/**
 * The rules of a stream's registry: its subscribers, how far the log has been fanned out, its laggards. Pure; the source submits
 * them to the registry's keeper.
 *
 * Invariants: the cursor moves only when every subscriber of that version has been served or is noted as a laggard. A session that
 * subscribed since then is served first.
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
  /** When a node makes sure that the stream is fanned out; null where no other node can leave it behind. */
  readonly remindAtMs: number | null;
}

export type AddOutcome =
  | {
      readonly kind: "added";
      readonly registry: Registry;
      readonly lagsAt: Position | undefined;
      /** It was there already, and nothing has changed. */
      readonly isKnown: boolean;
    }
  /** It belongs to another stream of the same path: an earlier one, which must go first, or a later one. */
  | { readonly kind: "of-another"; readonly name: string };

export function addRule(view: View, now: number, input: AddSubscriber): Decision<AddOutcome> {
  const { session, name, start, incarnation, epoch, remindAtMs } = input;
  const known = view.get(registryTable, "");
  // Of an earlier stream there may be payloads left that copies borrow; its subscribers have gone with it.
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
  // An earlier attempt of the same session comes late; a later one has been here.
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
  /** Undefined: whichever it is, because the session has ended. */
  readonly epoch: number | undefined;
  /** It is still read, and borrows payloads. */
  readonly keepsBorrowing: boolean;
}

export type RemoveOutcome =
  | { readonly kind: "removed"; readonly registry: Registry; readonly sessions: readonly string[] }
  | { readonly kind: "absent" }
  /** That was the last one, and the registry has gone with it. */
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
  /** The subscribers that could not be served, and how far they are. */
  readonly laggards: readonly (Addressed & { readonly session: string; readonly at: Position })[];
}

export type AdvanceOutcome =
  | { readonly kind: "advanced"; readonly registry: Registry; readonly lagging: Advance["laggards"] }
  /** A session came, left or caught up in the meantime: read the subscribers, serve the new ones, and ask again. */
  | { readonly kind: "changed" }
  | { readonly kind: "gone" };

export function advanceRule(view: View, { name, version, to, laggards }: Advance): Decision<AdvanceOutcome> {
  const registry = view.get(registryTable, "");
  if (registry === undefined || registry.name !== name) return { outcome: { kind: "gone" } };
  if (!isVersion(registry.version, version)) return { outcome: { kind: "changed" } };
  // Another node has come further; whom it could not serve it has noted itself.
  if (comparePositions(to, registry.cursor) <= 0) return { outcome: { kind: "advanced", registry, lagging: [] } };
  const lagging = laggards.filter(
    ({ session, ...who }) =>
      isStill(view.get(subscriberTable, session), who) && view.get(laggardTable, session) === undefined,
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

/** Whether it is the subscriber that is meant, and not a later one of the same session id. */
function isStill(subscriber: Subscriber | undefined, { incarnation, epoch }: Addressed): boolean {
  return subscriber?.incarnation === incarnation && subscriber.epoch === epoch && !subscriber.left;
}

export type CaughtUpOutcome =
  | { readonly kind: "joined"; readonly registry: Registry }
  | { readonly kind: "behind" | "gone" };

/** A laggard has come this far. It is one of the others again when that is as far as they are. */
export function caughtUpRule(view: View, session: string, who: Addressed, at: Position): Decision<CaughtUpOutcome> {
  const registry = view.get(registryTable, "");
  const laggard = view.get(laggardTable, session);
  if (registry === undefined || laggard === undefined || !isStill(view.get(subscriberTable, session), who)) {
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

/** Payloads that copies will borrow. Returns where the first of them lies; undefined when they do not fit any more. */
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

/** Sets when the stream is looked at again. */
export function remindRule(view: View, atMs: number | null): Decision<void> {
  if (view.get(registryTable, "") === undefined) return { outcome: undefined };
  return { outcome: undefined, changes: [{ op: "remind", atMs }] };
}

/** No session borrows what lies at or before this position any more. `bytes` is what the head counted there. */
export function trimRule(
  view: View,
  name: string,
  { position, bytes }: { readonly position: Position; readonly bytes: number },
): Decision<void> {
  const isIt = view.get(registryTable, "")?.name === name;
  if (!isIt || comparePositions(position, view.head.start) <= 0) return { outcome: undefined };
  return { outcome: undefined, changes: [{ op: "trim", through: position, bytes }] };
}
