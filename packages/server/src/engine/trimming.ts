/**
 * Decides where a log is trimmed. Pure; the rules of streams, inboxes and channels call it.
 *
 * It sets a mark every twentieth of the smallest limit, and trims from mark to mark. So a log keeps slightly more than its
 * limits, and no message is counted.
 *
 *   marks  ""   the marks after the last trim, oldest first
 *
 * Invariants: every message within the limits is kept, and every held one until the held bytes exceed the hold limit. Then the
 * holder meets a gap and is told.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Head, Message } from "./contract.ts";
import { type Change, put } from "./draft.ts";
import { jsonTable } from "./table.ts";

const MARKS_PER_LIMIT = 20;
/** The list is thinned beyond this length. The three limits together need fewer; the rest are marks that a hold keeps. */
const MAX_MARKS = 100;

export interface Mark {
  readonly position: Position;
  /** `Head.bytes` at this position. */
  readonly bytes: number;
  readonly at: number;
}

export const marksTable = jsonTable<readonly Mark[]>("marks");
export const MARKS = marksTable.at("");

/** The minimum that a log keeps; undefined means no limit of this kind. */
export interface KeepLimits {
  readonly maxMessages?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly maxAgeMs?: number | undefined;
}

/** A reader needs the messages after a position, until they exceed the limits by so many bytes. */
export interface Hold {
  readonly after: Position;
  readonly maxBytes: number;
}

const NOTHING: readonly Change[] = [];

/** The changes that follow from an append of `messages` after `head`; `marks` belong to the same log. */
export function trimAfterAppend(
  head: Head,
  marks: readonly Mark[],
  limits: KeepLimits,
  messages: readonly Message[],
  now: number,
  hold?: Hold | undefined,
): readonly Change[] {
  if (isNothingDue(head, marks, limits, messages, now)) return NOTHING;
  const { generation } = head;
  let { bytes } = head;
  let { seq } = head.last;
  const added: Mark[] = [];
  for (const message of messages) {
    seq++;
    bytes += message.payload.length;
    const mark = { position: { generation, seq }, bytes, at: message.at };
    if (isMarkDue(limits, added.at(-1) ?? marks.at(-1), head, mark)) added.push(mark);
  }
  const tail = { position: { generation, seq }, bytes, at: now };
  return trim(limits, marks, added, tail, hold, head.startBytes);
}

/** The changes that follow from time alone. */
export function trimByAge(
  head: Head,
  marks: readonly Mark[],
  limits: KeepLimits,
  now: number,
  hold?: Hold | undefined,
): readonly Change[] {
  const tail = { position: head.last, bytes: head.bytes, at: head.at };
  const last = marks.at(-1);
  const isNew = last === undefined || comparePositions(last.position, head.last) < 0;
  const added = isNew && head.at > 0 ? [tail] : [];
  return trim(limits, marks, added, { ...tail, at: now }, hold, head.startBytes);
}

/** When to check the log for age again; undefined if it has no age limit. */
export function nextAgeCheck({ maxAgeMs }: KeepLimits, now: number): number | undefined {
  return maxAgeMs === undefined ? undefined : now + Math.max(1_000, maxAgeMs / MARKS_PER_LIMIT);
}

/**
 * Whether the messages set no mark and make none cuttable, which is the common case. It compares numbers only, because it runs
 * for every append and its objects would outlive the young generation.
 */
function isNothingDue(
  { bytes, last, start, startBytes }: Head,
  marks: readonly Mark[],
  { maxMessages = Infinity, maxBytes = Infinity, maxAgeMs = Infinity }: KeepLimits,
  messages: readonly Message[],
  now: number,
): boolean {
  const oldest = marks[0];
  const newest = marks.at(-1);
  if (newest === undefined && maxAgeMs !== Infinity) return false;
  const newestAt = newest?.at ?? Infinity;
  let size = bytes;
  for (const { payload, at } of messages) {
    size += payload.length;
    if (at - newestAt >= maxAgeMs / MARKS_PER_LIMIT) return false;
  }
  const seq = last.seq + messages.length;
  const isMarkDue =
    seq - (newest?.position.seq ?? start.seq) >= maxMessages / MARKS_PER_LIMIT ||
    size - (newest?.bytes ?? startBytes) >= maxBytes / MARKS_PER_LIMIT;
  if (isMarkDue || oldest === undefined) return !isMarkDue;
  return seq - oldest.position.seq < maxMessages && size - oldest.bytes < maxBytes && now - oldest.at < maxAgeMs;
}

/** Before the first mark, the distance counts from the start of the log, whose time is unknown. */
function isMarkDue(limits: KeepLimits, last: Mark | undefined, { start, startBytes }: Head, next: Mark): boolean {
  const { maxMessages, maxBytes, maxAgeMs } = limits;
  const seq = last?.position.seq ?? start.seq;
  const bytes = last?.bytes ?? startBytes;
  return (
    (maxMessages !== undefined && next.position.seq - seq >= maxMessages / MARKS_PER_LIMIT) ||
    (maxBytes !== undefined && next.bytes - bytes >= maxBytes / MARKS_PER_LIMIT) ||
    (maxAgeMs !== undefined && (last === undefined || next.at - last.at >= maxAgeMs / MARKS_PER_LIMIT))
  );
}

function trim(
  limits: KeepLimits,
  marks: readonly Mark[],
  added: readonly Mark[],
  tail: Mark,
  hold: Hold | undefined,
  startBytes: number,
): readonly Change[] {
  const all = added.length > 0 ? [...marks, ...added] : marks;
  const at = lastCuttable(limits, all, tail, hold, startBytes);
  const changes: Change[] = [];
  if (at >= 0) {
    const { position, bytes } = all[at]!;
    changes.push({ op: "trim", through: position, bytes });
  }
  if (at >= 0 || added.length > 0) changes.push(put(marksTable, "", thinned(all.slice(at + 1), limits, tail)));
  return changes;
}

/**
 * Halves the marks that only the hold keeps, because every append that sets a mark writes them all. The last such mark stays: the
 * trim cuts there when the hold ends.
 */
function thinned(marks: readonly Mark[], limits: KeepLimits, tail: Mark): readonly Mark[] {
  let kept = marks;
  while (kept.length > MAX_MARKS) {
    const within = kept.findIndex((mark) => !isBeyond(limits, mark, tail));
    const last = (within < 0 ? kept.length : within) - 1;
    if (last < 2) break;
    kept = kept.filter((_, i) => i >= last || i % 2 === 0);
  }
  return kept;
}

/** The index of the last mark that may be cut at, or -1. */
function lastCuttable(
  limits: KeepLimits,
  marks: readonly Mark[],
  tail: Mark,
  hold: Hold | undefined,
  startBytes: number,
): number {
  const keptBytes = tail.bytes - startBytes - (limits.maxBytes ?? 0);
  const needed = hold !== undefined && keptBytes <= hold.maxBytes ? hold.after : undefined;
  for (let i = marks.length - 1; i >= 0; i--) {
    const mark = marks[i]!;
    if (needed !== undefined && comparePositions(mark.position, needed) > 0) continue;
    if (isBeyond(limits, mark, tail)) return i;
  }
  return -1;
}

/** Whether everything that the limits keep lies after this mark. */
function isBeyond({ maxMessages, maxBytes, maxAgeMs }: KeepLimits, mark: Mark, tail: Mark): boolean {
  return (
    (maxMessages !== undefined && tail.position.seq - mark.position.seq >= maxMessages) ||
    (maxBytes !== undefined && tail.bytes - mark.bytes >= maxBytes) ||
    (maxAgeMs !== undefined && mark.at <= tail.at - maxAgeMs)
  );
}
