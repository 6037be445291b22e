/**
 * The rules of a session: join a stream, take a copy, leave, touch, end. Pure; the service and the port submit them to
 * the session's keeper.
 *
 * Invariants: a copy applies only onto its predecessor, in the incarnation and the epoch it is addressed to. A session
 * that is over or ending takes no copies and looks absent to every caller.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Change } from "../engine/draft.ts";
import { drop, put } from "../engine/draft.ts";
import type { Decision, Rule, View } from "../engine/keeper.ts";
import { cutUnheld } from "../streams/retention.ts";
import { endsAt, isSameType, lifeOf, type Meta, metaTable, slides } from "../streams/state.ts";
import type { Copy } from "./copy.ts";
import type { SessionLimits } from "./defaults.ts";
import {
  type CopyFormat,
  isBefore,
  type Session,
  type Subscription,
  sessionTable,
  subscriptionTable,
} from "./state.ts";

/** The caller of a request. An admin may do what the owner may. */
export interface Asker {
  readonly subject: string | undefined;
  readonly isAdmin: boolean;
}

export interface Join {
  readonly asker: Asker;
  readonly stream: string;
  /** The stream's name for its follower. */
  readonly name: string;
  readonly format: CopyFormat;
  /** The content type of the source. */
  readonly contentType: string;
  /** The first copy applies onto this position. */
  readonly start: Position;
}

export interface Joined {
  readonly kind: "joined";
  readonly isNewSession: boolean;
  readonly isNewSubscription: boolean;
  readonly incarnation: string;
  readonly subscription: Subscription;
  readonly expiresAt: number;
}

export type JoinOutcome =
  | Joined
  | { readonly kind: "anothers" | "format-differs" | "too-many" }
  | { readonly kind: "over" }
  | { readonly kind: "wrong-type"; readonly contentType: string };

export type OpenOutcome =
  | { readonly kind: "open"; readonly isNew: boolean; readonly incarnation: string; readonly expiresAt: number }
  | { readonly kind: "anothers" | "over" };

/** Opens the caller's session, or touches it if it exists. A new session has no inbox until it subscribes. */
export function openRule(view: View, now: number, asker: Asker, limits: SessionLimits): Decision<OpenOutcome> {
  const meta = view.get(metaTable, "");
  if (meta === undefined) {
    const { session, changes, expiresAt } = create(view, now, asker, limits, { inbox: "none", contentType: "" });
    return { outcome: { kind: "open", isNew: true, incarnation: session.incarnation, expiresAt }, changes };
  }
  const session = view.get(sessionTable, "");
  if (session === undefined || lifeOf(meta, view.head, now) !== "live") return { outcome: { kind: "over" } };
  if (!mayUse(session, asker)) return { outcome: { kind: "anothers" } };
  const touched: Meta = { ...meta, touchedAt: now };
  const outcome = { kind: "open", isNew: false, incarnation: session.incarnation, expiresAt: expiresAtOf(touched) };
  return { outcome: outcome as OpenOutcome, changes: [put(metaTable, "", touched)] };
}

/** The session's step of a subscription. It creates the session and its inbox if they do not exist. */
export function joinRule(view: View, now: number, input: Join, limits: SessionLimits): Decision<JoinOutcome> {
  const meta = view.get(metaTable, "");
  const contentType = input.format === "envelope" ? "application/json" : input.contentType;
  if (meta === undefined) return createJoined(view, now, input, contentType, limits);
  const session = view.get(sessionTable, "");
  if (session === undefined || lifeOf(meta, view.head, now) !== "live") return { outcome: { kind: "over" } };
  if (!mayUse(session, input.asker)) return { outcome: { kind: "anothers" } };
  const hasInbox = meta.inbox === true;
  if (hasInbox && !isSameType(meta.config.contentType, contentType)) {
    return { outcome: { kind: "wrong-type", contentType: meta.config.contentType } };
  }
  const known = view.get(subscriptionTable, input.stream);
  const config = hasInbox ? meta.config : { ...meta.config, contentType };
  const touched: Meta = { ...meta, config, inbox: true, touchedAt: now };
  const common = { kind: "joined", isNewSession: false, incarnation: session.incarnation } as const;
  const expiresAt = expiresAtOf(touched);
  // A subscription that was never completed starts over, so that no earlier message is copied.
  if (known !== undefined && !known.left && !known.pending && known.name === input.name) {
    if (known.format !== input.format) return { outcome: { kind: "format-differs" } };
    const outcome = { ...common, isNewSubscription: false, subscription: known, expiresAt };
    return { outcome, changes: [put(metaTable, "", touched)] };
  }
  if (known === undefined && session.subscriptions >= limits.subscriptions) return { outcome: { kind: "too-many" } };
  const epoch = session.epoch + 1;
  const subscription = subscribed(input, epoch, now, known?.borrows);
  const subscriptions = session.subscriptions + (known === undefined ? 1 : 0);
  const changes = [
    put(metaTable, "", touched),
    put(sessionTable, "", { ...session, epoch, subscriptions }),
    put(subscriptionTable, input.stream, subscription),
  ];
  return { outcome: { ...common, isNewSubscription: true, subscription, expiresAt }, changes };
}

function createJoined(
  view: View,
  now: number,
  input: Join,
  contentType: string,
  limits: SessionLimits,
): Decision<JoinOutcome> {
  const made = create(view, now, input.asker, limits, { inbox: true, contentType });
  const session: Session = { ...made.session, epoch: 1, subscriptions: 1 };
  const subscription = subscribed(input, 1, now);
  const changes = [...made.changes, put(sessionTable, "", session), put(subscriptionTable, input.stream, subscription)];
  const { incarnation } = session;
  const { expiresAt } = made;
  const outcome = { kind: "joined", isNewSession: true, isNewSubscription: true, incarnation, subscription, expiresAt };
  return { outcome: outcome as Joined, changes };
}

function create(
  view: View,
  now: number,
  { subject }: Asker,
  limits: SessionLimits,
  { inbox, contentType }: { readonly inbox: true | "none"; readonly contentType: string },
): { session: Session; changes: Change[]; expiresAt: number } {
  const { ttlSeconds, keptMessages: maxMessages, keptBytes: maxBytes } = limits;
  // The engine never gives a generation twice, not even to a later session of the same id.
  const generation = view.nextGeneration;
  const config = { contentType, ttlSeconds, retention: { maxMessages, maxBytes } };
  const meta: Meta = { config, createdAt: now, touchedAt: now, closed: false, inbox };
  const session: Session = { owner: subject, incarnation: String(generation), epoch: 0, subscriptions: 0 };
  const changes: Change[] = [
    { op: "begin", generation, at: { generation, seq: 0 } },
    put(metaTable, "", meta),
    put(sessionTable, "", session),
    { op: "remind", atMs: cleanupAt(meta, view, limits) },
  ];
  return { session, changes, expiresAt: expiresAtOf(meta) };
}

function subscribed({ name, format, start }: Join, epoch: number, now: number, borrows?: true): Subscription {
  return { name, epoch, since: now, format, at: start, pending: true, borrows };
}

export function mayUse({ owner }: Session, { subject, isAdmin }: Asker): boolean {
  return isAdmin || owner === subject;
}

/** The expiry that clients see; never later than the real one. */
export function expiresAtOf({ touchedAt, config }: Meta): number {
  return touchedAt + (config.ttlSeconds ?? 0) * 1_000;
}

/** Expired sessions are cleaned up at whole intervals, so that many are cleaned together. */
function cleanupAt(meta: Meta, view: View, { cleanupMs }: SessionLimits): number {
  return Math.ceil((endsAt(meta, view.head) ?? 0) / cleanupMs) * cleanupMs;
}

/**
 * Confirms that the registry has the subscription too. `ended`: the session or the subscription is gone; says whether
 * copies borrow.
 */
export function confirmRule(
  view: View,
  stream: string,
  { incarnation, epoch }: Addressed,
): Decision<"stands" | { readonly kind: "ended"; readonly borrows: boolean }> {
  const isLive = view.get(metaTable, "")?.deleted === undefined;
  const subscription = isLive ? standing(view, stream, incarnation, epoch) : undefined;
  if (subscription === undefined) {
    return { outcome: { kind: "ended", borrows: isLive && stillBorrows(view, stream, incarnation) } };
  }
  if (subscription.pending === undefined) return { outcome: "stands" };
  return { outcome: "stands", changes: [put(subscriptionTable, stream, { ...subscription, pending: undefined })] };
}

/** The subscription, if it is still the addressed one. */
function standing(view: View, stream: string, incarnation: string, epoch: number): Subscription | undefined {
  const subscription = view.get(subscriptionTable, stream);
  const isIt = subscription?.epoch === epoch && !subscription.left;
  return isIt && view.get(sessionTable, "")?.incarnation === incarnation ? subscription : undefined;
}

export type CopyOutcome =
  | { readonly kind: "applied" | "duplicate"; readonly at: Position }
  /** Messages before the copy are missing. */
  | { readonly kind: "lagging"; readonly at: Position }
  /** The session or subscription is gone, but an inbox may remain whose copies borrow. */
  | { readonly kind: "stale"; readonly borrows: boolean };

const GONE: CopyOutcome = { kind: "stale", borrows: false };

/** Whether this session has left the stream, or subscribed again, and has copies that borrow from it. */
function stillBorrows(view: View, stream: string, incarnation: string): boolean {
  const isIt = view.get(sessionTable, "")?.incarnation === incarnation;
  return isIt && view.get(subscriptionTable, stream)?.borrows === true;
}

export interface Addressed {
  readonly incarnation: string;
  readonly epoch: number;
}

export function copyRule(
  view: View,
  now: number,
  copy: Copy,
  { incarnation, epoch }: Addressed,
): Decision<CopyOutcome> {
  const meta = view.get(metaTable, "");
  if (meta === undefined || lifeOf(meta, view.head, now) !== "live") return { outcome: GONE };
  const subscription = standing(view, copy.stream, incarnation, epoch);
  if (subscription === undefined) {
    return { outcome: { kind: "stale", borrows: stillBorrows(view, copy.stream, incarnation) } };
  }
  const { at, format, borrows, missed } = subscription;
  if (comparePositions(at, copy.through) >= 0) return { outcome: { kind: "duplicate", at } };
  if (isBefore(at, copy.prev)) return { outcome: { kind: "lagging", at } };
  const messages = copy.after(at, format);
  const misses = copy.gap !== undefined && isBefore(at, copy.gap.through);
  const next: Subscription = {
    ...subscription,
    at: copy.through,
    pending: undefined,
    borrows: borrows ?? (copy.borrows || undefined),
    // One range covers all missed messages, so that a second gap does not erase the first.
    missed: misses ? { after: missed?.after ?? at, through: copy.gap.through } : missed,
  };
  const changes: Change[] = [put(subscriptionTable, copy.stream, next)];
  if (messages.length > 0) {
    changes.push({ op: "append", messages }, ...cutUnheld(view, meta.config.retention, messages, now));
  }
  return { outcome: { kind: "applied", at: copy.through }, changes };
}

/** Ends a subscription. Its row stays while copies in the inbox borrow. */
function ended(view: View, stream: string, subscription: Subscription): Change[] {
  if (!subscription.borrows) return dropped(view, stream);
  return [put(subscriptionTable, stream, { ...subscription, left: true as const, pending: undefined })];
}

function dropped(view: View, stream: string): Change[] {
  const session = view.get(sessionTable, "")!;
  return [
    drop(subscriptionTable, stream),
    put(sessionTable, "", { ...session, subscriptions: session.subscriptions - 1 }),
  ];
}

export type LeaveOutcome =
  | { readonly kind: "left"; readonly incarnation: string; readonly epoch: number; readonly borrows: boolean }
  | { readonly kind: "absent" | "not-subscribed" };

/** From this commit on the session takes no more copies. */
export function leaveRule(view: View, now: number, stream: string, asker: Asker): Decision<LeaveOutcome> {
  const session = usable(view, now, asker);
  if (session === undefined) return { outcome: { kind: "absent" } };
  const subscription = view.get(subscriptionTable, stream);
  if (subscription === undefined || subscription.left) return { outcome: { kind: "not-subscribed" } };
  const { epoch, borrows } = subscription;
  const outcome = { kind: "left", incarnation: session.incarnation, epoch, borrows: borrows === true } as const;
  return { outcome, changes: ended(view, stream, subscription) };
}

/**
 * The stream of this name is gone, and the subscription ends with it. Says whether copies in the inbox still borrow.
 */
export function dropRule(
  view: View,
  stream: string,
  name: string,
  { incarnation, epoch }: Addressed,
): Decision<{ borrows: boolean }> {
  const outcome = { borrows: stillBorrows(view, stream, incarnation) };
  const subscription = standing(view, stream, incarnation, epoch);
  if (subscription === undefined || subscription.name !== name) return { outcome };
  return { outcome, changes: ended(view, stream, subscription) };
}

/** Undoes a subscription that could not be completed, and the session that was created for it. */
export function undoRule(
  view: View,
  stream: string,
  { incarnation, epoch }: Addressed,
  withSession: boolean,
): Decision<void> {
  const subscription = standing(view, stream, incarnation, epoch);
  if (subscription === undefined) return { outcome: undefined };
  const isOnly = view.get(sessionTable, "")!.subscriptions === 1;
  return {
    outcome: undefined,
    changes: withSession && isOnly ? [{ op: "destroy" }] : ended(view, stream, subscription),
  };
}

/** The session, if it exists and the caller may use it. */
function usable(view: View, now: number, asker: Asker): Session | undefined {
  const session = view.get(sessionTable, "");
  if (session === undefined || lifeOf(view.get(metaTable, ""), view.head, now) !== "live") return undefined;
  return mayUse(session, asker) ? session : undefined;
}

/** Records a use of the session; undefined if there is none. */
export function touchSessionRule(view: View, now: number, asker: Asker): Decision<{ expiresAt: number } | undefined> {
  if (usable(view, now, asker) === undefined) return { outcome: undefined };
  const meta: Meta = { ...view.get(metaTable, "")!, touchedAt: now };
  return { outcome: { expiresAt: expiresAtOf(meta) }, changes: [put(metaTable, "", meta)] };
}

/** A session that a caller may use, and the outcome of another feature's rule on its rows. */
export interface Used<O> {
  readonly outcome: O;
  readonly owner: string | undefined;
  readonly incarnation: string;
  readonly expiresAt: number;
}

/** The server's own work may change any session, and prolongs none. */
export type User = Asker | "server";

/**
 * Runs the rule of another feature on its own rows of the session; undefined if the caller has no such session. A use by a
 * caller is stored with the rule's changes, or if it moves the end of the session by a tenth.
 */
export function useRule<O>(view: View, now: number, user: User, rule: Rule<O>): Decision<Used<O> | undefined> {
  const isOwn = user === "server";
  const session = usable(view, now, isOwn ? { subject: undefined, isAdmin: true } : user);
  if (session === undefined) return { outcome: undefined };
  const { outcome, changes = [] } = rule(view, now);
  const meta = view.get(metaTable, "")!;
  const isStored = !isOwn && (changes.length > 0 || slides(meta, view.head, now));
  const used: Meta = isStored ? { ...meta, touchedAt: now } : meta;
  return {
    outcome: { outcome, owner: session.owner, incarnation: session.incarnation, expiresAt: expiresAtOf(used) },
    changes: isStored ? [...changes, put(metaTable, "", used)] : changes,
  };
}

export type EndOutcome =
  | { readonly kind: "ending"; readonly incarnation: string }
  | { readonly kind: "absent" | "kept" };

/**
 * Deletes the session for its owner: from this commit on it is absent. Rows that refer to it are cleaned up afterwards.
 */
export function deleteSessionRule(view: View, now: number, asker: Asker, limits: SessionLimits): Decision<EndOutcome> {
  const session = usable(view, now, asker);
  if (session === undefined) return { outcome: { kind: "absent" } };
  return end(view, session, now, limits);
}

/** The same for an expired session or an interrupted deletion; otherwise stores when to check again. */
export function expireRule(view: View, now: number, limits: SessionLimits): Decision<EndOutcome> {
  const meta = view.get(metaTable, "");
  const session = view.get(sessionTable, "");
  if (meta === undefined || session === undefined) return { outcome: { kind: "absent" } };
  if (!meta.deleted && lifeOf(meta, view.head, now) === "live") {
    return { outcome: { kind: "kept" }, changes: [{ op: "remind", atMs: cleanupAt(meta, view, limits) }] };
  }
  return end(view, session, now, limits);
}

function end(view: View, { incarnation }: Session, now: number, { endAgainMs }: SessionLimits): Decision<EndOutcome> {
  const meta = view.get(metaTable, "")!;
  const changes: Change[] = [{ op: "remind", atMs: now + endAgainMs }];
  if (!meta.deleted) changes.push(put(metaTable, "", { ...meta, deleted: true }));
  return { outcome: { kind: "ending", incarnation }, changes };
}

/** The last step: no row refers to the session any more. */
export function destroyRule(view: View, incarnation: string): Decision<boolean> {
  const isIt = view.get(sessionTable, "")?.incarnation === incarnation && view.get(metaTable, "")?.deleted === true;
  return isIt ? { outcome: true, changes: [{ op: "destroy" }] } : { outcome: false };
}
