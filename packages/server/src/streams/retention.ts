/**
 * How much of a stream's log is kept: what its retention allows and what holders need. Pure; called by the append rule,
 * the rules of a stream's life, inboxes and the sweep. `engine/trimming.ts` decides where exactly the log is trimmed.
 */
import { comparePositions } from "@sluice/protocol";
import type { Head, Message } from "../engine/contract.ts";
import type { Change } from "../engine/draft.ts";
import type { View } from "../engine/keeper.ts";
import { type Hold, type Mark, marksTable, trimAfterAppend, trimByAge } from "../engine/trimming.ts";
import { holdsTable, metaTable, type Retention } from "./state.ts";

/** The changes that follow from appending `messages`, which the view does not contain yet. */
export function cutForRetention(
  view: View,
  retention: Retention | undefined,
  messages: readonly Message[],
  now: number,
  holdBytes: number,
): readonly Change[] {
  if (retention === undefined) return [];
  return trimAfterAppend(view.head, marksOf(view), retention, messages, now, lowestHold(view, holdBytes));
}

/** The same for an inbox, which has one reader and no holds. */
export function cutUnheld(
  view: View,
  retention: Retention | undefined,
  messages: readonly Message[],
  now: number,
): readonly Change[] {
  if (retention === undefined) return [];
  return trimAfterAppend(view.head, marksOf(view), retention, messages, now);
}

/** The same for the messages that a stream is created with; `head` is its first head. */
export function cutAtCreation(
  head: Head,
  retention: Retention | undefined,
  messages: readonly Message[],
  now: number,
): readonly Change[] {
  if (retention === undefined || messages.length === 0) return [];
  return trimAfterAppend(head, [], retention, messages, now);
}

/** The changes that follow from time alone. */
export function cutByAge(view: View, retention: Retention, now: number, holdBytes: number): readonly Change[] {
  return trimByAge(view.head, marksOf(view), retention, now, lowestHold(view, holdBytes));
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
