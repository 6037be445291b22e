/**
 * Tells a repeated message from another message under the same sequence, by comparing it with the log. The service calls
 * `compare` when the publish rule finds repeated sequences, because a rule sees no log.
 *
 * Invariants: a stored message never changes, so an answer stays true for its position. A message that was trimmed or lost
 * cannot be compared and counts as repeated.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Engine, Entity, LoggedMessage } from "../engine/contract.ts";
import type { NewMessage } from "./rules.ts";
import type { Phase } from "./state.ts";

/** A message of a request, and the stored message that has its sequence. */
export interface Repeat {
  readonly message: NewMessage;
  readonly position: Position;
}

/** A stored message without its payload. */
export interface Shown {
  readonly messageId: string;
  readonly channelId: string;
  readonly phase: Phase;
  readonly sequence: number;
  readonly gap?: { readonly expected: number } | undefined;
}

/** The text of a stored message. The payload is JSON and stays as its publisher wrote it. */
export function messageText({ messageId, channelId, phase, sequence, gap }: Shown, payload: string): string {
  return `${JSON.stringify({ messageId, channelId, phase, sequence, gap }).slice(0, -1)},"payload":${payload}}`;
}

/** Whether a stored text is that of this message: the same phase and, character by character, the same payload. */
export function isSame(text: string, { phase, payload }: NewMessage): boolean {
  return text === messageText({ ...(JSON.parse(text) as Shown), phase }, payload);
}

const PAGE_BYTES = 256 * 1024;

/** The first message that differs from the stored one; undefined if all of them are repetitions. */
export async function firstDifferent(
  engine: Engine,
  e: Entity,
  pairs: readonly Repeat[],
): Promise<NewMessage | undefined> {
  let page: readonly LoggedMessage[] = [];
  for (const { message, position } of pairs) {
    let stored = at(page, position);
    if (stored === undefined) {
      const before = { ...position, seq: position.seq - 1 };
      page = (await engine.read(e, before, PAGE_BYTES)).messages;
      stored = at(page, position);
    }
    if (stored !== undefined && !isSame(new TextDecoder().decode(stored.payload), message)) return message;
  }
  return undefined;
}

function at(page: readonly LoggedMessage[], position: Position): LoggedMessage | undefined {
  return page.find((one) => comparePositions(one.position, position) === 0);
}
