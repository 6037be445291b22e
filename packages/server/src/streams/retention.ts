/**
 * Where a stream's log may be cut. A mark is set every twentieth of the smallest limit; cutting goes from mark to mark, so
 * a little more than asked is kept and nothing has to be counted. Pure; called by the append rule and the sweep.
 *
 * What must stay true: at least what was asked for is kept, and nothing that somebody holds, unless what is held grows
 * beyond the hold limit; then the holder will find a gap and be told.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Head, Message } from "../engine/contract.ts";
import { type Change, put } from "../engine/draft.ts";
import type { View } from "../engine/keeper.ts";
import { holdsTable, type Mark, marksTable, metaTable, type Retention } from "./state.ts";

const MARKS_PER_LIMIT = 20;
/** More than these are thinned out. The three limits together need fewer; the others wait for a hold to go. */
const MAX_MARKS = 100;
/** Somebody needs what comes after a position, until what is kept for that is more than so many bytes over what was asked. */
interface Hold {
  readonly after: Position;
  readonly maxBytes: number;
}

/** The changes that follow from appending `messages` to the view, which does not hold them yet. */
export function cutForRetention(
  view: View,
  retention: Retention | undefined,
  messages: readonly Message[],
  now: number,
  holdBytes: number,
): readonly Change[] {
  if (retention === undefined) return [];
  return cutAfterAppend(view.head, marksOf(view), lowestHold(view, holdBytes), retention, messages, now);
}

/** The same for what nobody else reads, so that nobody holds it. */
export function cutUnheld(
  view: View,
  retention: Retention | undefined,
  messages: readonly Message[],
  now: number,
): readonly Change[] {
  if (retention === undefined) return [];
  return cutAfterAppend(view.head, marksOf(view), undefined, retention, messages, now);
}

/** The same for messages that a stream is created with; `head` is the one it begins with. */
export function cutAtCreation(
  head: Head,
  retention: Retention | undefined,
  messages: readonly Message[],
  now: number,
): readonly Change[] {
  if (retention === undefined || messages.length === 0) return [];
  return cutAfterAppend(head, [], undefined, retention, messages, now);
}

function cutAfterAppend(
  head: Head,
  marks: readonly Mark[],
  hold: Hold | undefined,
  retention: Retention,
  messages: readonly Message[],
  now: number,
): readonly Change[] {
  if (isNothingDue(head, marks, retention, messages, now)) return NOTHING;
  const { generation } = head;
  let { bytes } = head;
  let { seq } = head.last;
  const added: Mark[] = [];
  for (const message of messages) {
    seq++;
    bytes += message.payload.length;
    const mark = { position: { generation, seq }, bytes, at: message.at };
    if (isMarkDue(retention, added.at(-1) ?? marks.at(-1), mark)) added.push(mark);
  }
  const tail = { position: { generation, seq }, bytes, at: now };
  return cut(retention, marks, added, tail, hold, head.startBytes);
}

const NOTHING: readonly Change[] = [];

/**
 * Whether the messages set no mark and let none be cut at, as is so for nearly all of them. In numbers alone, because this is
 * asked for every append: what it would make is garbage that outlives the young.
 */
function isNothingDue(
  { bytes, last }: Head,
  marks: readonly Mark[],
  { maxMessages = Infinity, maxBytes = Infinity, maxAgeMs = Infinity }: Retention,
  messages: readonly Message[],
  now: number,
): boolean {
  const oldest = marks[0];
  const newest = marks.at(-1);
  if (oldest === undefined || newest === undefined) return false;
  let size = bytes;
  for (const { payload, at } of messages) {
    size += payload.length;
    if (at - newest.at >= maxAgeMs / MARKS_PER_LIMIT) return false;
  }
  const seq = last.seq + messages.length;
  return (
    seq - newest.position.seq < maxMessages / MARKS_PER_LIMIT &&
    size - newest.bytes < maxBytes / MARKS_PER_LIMIT &&
    seq - oldest.position.seq < maxMessages &&
    size - oldest.bytes < maxBytes &&
    now - oldest.at < maxAgeMs
  );
}

/** The changes that follow from time alone. */
export function cutByAge(view: View, retention: Retention, now: number, holdBytes: number): readonly Change[] {
  const marks = marksOf(view);
  const { head } = view;
  const tail = { position: head.last, bytes: head.bytes, at: head.at };
  const last = marks.at(-1);
  const isNew = last === undefined || comparePositions(last.position, head.last) < 0;
  const added = isNew && head.at > 0 ? [tail] : [];
  return cut(retention, marks, added, { ...tail, at: now }, lowestHold(view, holdBytes), head.startBytes);
}

function isMarkDue(retention: Retention, last: Mark | undefined, next: Mark): boolean {
  if (last === undefined) return true;
  const { maxMessages, maxBytes, maxAgeMs } = retention;
  return (
    (maxMessages !== undefined && next.position.seq - last.position.seq >= maxMessages / MARKS_PER_LIMIT) ||
    (maxBytes !== undefined && next.bytes - last.bytes >= maxBytes / MARKS_PER_LIMIT) ||
    (maxAgeMs !== undefined && next.at - last.at >= maxAgeMs / MARKS_PER_LIMIT)
  );
}

function cut(
  retention: Retention,
  marks: readonly Mark[],
  added: readonly Mark[],
  tail: Mark,
  hold: Hold | undefined,
  startBytes: number,
): readonly Change[] {
  const all = added.length > 0 ? [...marks, ...added] : marks;
  const at = lastCuttable(retention, all, tail, hold, startBytes);
  const changes: Change[] = [];
  if (at >= 0) {
    const { position, bytes } = all[at]!;
    changes.push({ op: "trim", through: position, bytes });
  }
  if (at >= 0 || added.length > 0) changes.push(put(marksTable, "", thinned(all.slice(at + 1), retention, tail)));
  return changes;
}

/**
 * Marks are written with every append that sets one, so a long hold must not pile them up. Of those that only the hold
 * keeps from being cut at, every other one goes, but the last stays: there the cut is made when the hold goes.
 */
function thinned(marks: readonly Mark[], retention: Retention, tail: Mark): readonly Mark[] {
  let kept = marks;
  while (kept.length > MAX_MARKS) {
    const within = kept.findIndex((mark) => !isBeyond(retention, mark, tail));
    const last = (within < 0 ? kept.length : within) - 1;
    if (last < 2) break;
    kept = kept.filter((_, i) => i >= last || i % 2 === 0);
  }
  return kept;
}

/** The index of the last mark that may be cut at, or -1. */
function lastCuttable(
  retention: Retention,
  marks: readonly Mark[],
  tail: Mark,
  hold: Hold | undefined,
  startBytes: number,
): number {
  const keptBytes = tail.bytes - startBytes - (retention.maxBytes ?? 0);
  const needed = hold !== undefined && keptBytes <= hold.maxBytes ? hold.after : undefined;
  for (let i = marks.length - 1; i >= 0; i--) {
    const mark = marks[i]!;
    if (needed !== undefined && comparePositions(mark.position, needed) > 0) continue;
    if (isBeyond(retention, mark, tail)) return i;
  }
  return -1;
}

/** Whether all that is asked for lies after this mark. */
function isBeyond({ maxMessages, maxBytes, maxAgeMs }: Retention, mark: Mark, tail: Mark): boolean {
  return (
    (maxMessages !== undefined && tail.position.seq - mark.position.seq >= maxMessages) ||
    (maxBytes !== undefined && tail.bytes - mark.bytes >= maxBytes) ||
    (maxAgeMs !== undefined && mark.at <= tail.at - maxAgeMs)
  );
}

function marksOf(view: View): readonly Mark[] {
  return view.get(marksTable, "") ?? [];
}

function lowestHold(view: View, maxBytes: number): Hold | undefined {
  let lowest = view.get(metaTable, "")?.forks?.needAfter;
  for (const position of Object.values(view.get(holdsTable, "") ?? {})) {
    if (lowest === undefined || comparePositions(position, lowest) < 0) lowest = position;
  }
  return lowest && { after: lowest, maxBytes };
}

/** When the sweep should look at the stream again for the sake of age. */
export function nextAgeCheck(retention: Retention, now: number): number | undefined {
  if (retention.maxAgeMs === undefined) return undefined;
  return now + Math.max(1_000, retention.maxAgeMs / MARKS_PER_LIMIT);
}
