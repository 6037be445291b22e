/**
 * The rules of what a tab follows: subscribe, unsubscribe, heartbeat, connect, renew. Pure. They see the rows of one session
 * that is live and belongs to the caller; the service submits them through the session port.
 *
 * Invariants: a pointer moves only by `heartbeatRule`, and only forward. An epoch is never given twice within a session. Every
 * change of the set of subscriptions raises the version.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { type Live, liveTable, type Pointer, pointerTable } from "./state.ts";

const NEW: Live = { version: 0, pointers: 0, connections: 0 };

export function liveOf(view: View): Live {
  return view.get(liveTable, "") ?? NEW;
}

export interface Subscribe {
  readonly stream: string;
  /** The name of the stream that exists now. */
  readonly name: string;
  /** Its tail at this moment, where a new subscription begins. */
  readonly tail: Position;
  /** Streams that one session may follow. */
  readonly max: number;
  readonly presence?: Pointer["presence"];
}

export type SubscribeOutcome =
  | { readonly kind: "subscribed"; readonly isNew: boolean; readonly pointer: Pointer }
  | { readonly kind: "too-many" };

/** A repeat keeps pointer and epoch, and says anew whether the client wants presence. A pointer into an earlier stream at the same path is replaced. */
export function subscribeRule(view: View, now: number, input: Subscribe): Decision<SubscribeOutcome> {
  const { stream, name, tail, max, presence } = input;
  const live = liveOf(view);
  const known = view.get(pointerTable, stream);
  if (known === undefined && live.pointers >= max) return { outcome: { kind: "too-many" } };
  const isNew = known?.name !== name;
  const version = live.version + 1;
  const begun = isNew ? { epoch: version, name, at: tail, since: now } : known;
  const pointer = { ...begun, asked: version, presence };
  const pointers = live.pointers + (known === undefined ? 1 : 0);
  const changes = [put(pointerTable, stream, pointer), put(liveTable, "", { ...live, version, pointers })];
  return { outcome: { kind: "subscribed", isNew, pointer }, changes };
}

/** The subscription that is meant, where a later one may have taken its place: by the name of its stream, or by its epoch. */
export interface Meant {
  readonly name?: string | undefined;
  readonly epoch?: number | undefined;
}

/** Removes the subscription, if it is the one that is meant. Returns its epoch. */
export function unsubscribeRule(view: View, stream: string, { name, epoch }: Meant): Decision<number | undefined> {
  const known = view.get(pointerTable, stream);
  const isIt = (name ?? known?.name) === known?.name && (epoch ?? known?.epoch) === known?.epoch;
  if (known === undefined || !isIt) return { outcome: undefined };
  const live = liveOf(view);
  const changed = { ...live, version: live.version + 1, pointers: live.pointers - 1 };
  return { outcome: known.epoch, changes: [drop(pointerTable, stream), put(liveTable, "", changed)] };
}

/** A client's word about one stream. */
export interface Processed {
  readonly stream: string;
  readonly at: Position;
  /** Undefined: the client does not say which of its subscriptions it means. */
  readonly epoch: number | undefined;
}

/** Whether the word moves the pointer: of the same epoch, and ahead of it. */
export function advances(pointer: Pointer | undefined, { at, epoch }: Processed): pointer is Pointer {
  if (pointer === undefined || (epoch !== undefined && epoch !== pointer.epoch)) return false;
  return comparePositions(at, pointer.at) > 0;
}

/** Moves the pointers that advance, all in one commit. Returns their number. */
export function heartbeatRule(view: View, words: readonly Processed[]): Decision<number> {
  const moved = new Map<string, Pointer>();
  for (const word of words) {
    const pointer = moved.get(word.stream) ?? view.get(pointerTable, word.stream);
    if (advances(pointer, word)) moved.set(word.stream, { ...pointer, at: word.at });
  }
  const changes: Change[] = [...moved].map(([stream, pointer]) => put(pointerTable, stream, pointer));
  return { outcome: moved.size, changes };
}

/** From this commit on, `nonce` names the one connection of the session. */
export function connectRule(view: View, nonce: string): Decision<Live> {
  const before = liveOf(view);
  const live = { ...before, connections: before.connections + 1, nonce };
  return { outcome: live, changes: [put(liveTable, "", live)] };
}

/** A token that lives until then was minted, so an open connection may stay as long. */
export function renewRule(view: View, tokenUntilMs: number): Decision<void> {
  const live = liveOf(view);
  if ((live.tokenUntilMs ?? 0) >= tokenUntilMs) return { outcome: undefined };
  return { outcome: undefined, changes: [put(liveTable, "", { ...live, tokenUntilMs })] };
}
