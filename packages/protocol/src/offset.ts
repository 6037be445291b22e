/**
 * A reader's place in a log: the position *after* a message, as (generation, sequence). Server and client use it.
 *
 *   0000000000000007_0000000000000042
 *   ^ generation     ^ number of the message this offset stands after
 *
 * Invariants: the text form has a fixed width, so comparing two offsets as text compares their positions. Clients treat it as
 * opaque. Creating a stream anew, or a detected loss of history, raises the generation. So no message appended later sorts at or
 * below an offset that a client has seen.
 */
export interface Position {
  readonly generation: number;
  readonly seq: number;
}

const DIGITS = 16;
const PATTERN = /^\d{16}_\d{16}$/;

/** Before every message: sorts at or below every offset of every stream. */
export const ZERO: Position = { generation: 0, seq: 0 };

/** The words a client may send instead of an offset. */
export const BEGINNING = "-1";
export const NOW = "now";

export function formatOffset({ generation, seq }: Position): string {
  return beginningOf(generation) + padded(seq);
}

const ZEROES = Array.from({ length: DIGITS }, (_, count) => "0".repeat(count));

function padded(value: number): string {
  const digits = String(value);
  return ZEROES[DIGITS - digits.length]! + digits;
}

/** The last generation that was asked for, because most streams of a server have few of them. */
let last = { generation: -1, text: "" };

function beginningOf(generation: number): string {
  if (generation !== last.generation) last = { generation, text: `${padded(generation)}_` };
  return last.text;
}

/** The position that an offset names, or undefined if the text is not an offset. */
export function parseOffset(text: string): Position | undefined {
  if (!PATTERN.test(text)) return undefined;
  const generation = Number(text.slice(0, DIGITS));
  const seq = Number(text.slice(DIGITS + 1));
  if (!Number.isSafeInteger(generation) || !Number.isSafeInteger(seq)) return undefined;
  return { generation, seq };
}

/** Negative when a is before b, zero when they are the same, positive when a is after b. */
export function comparePositions(a: Position, b: Position): number {
  return a.generation - b.generation || a.seq - b.seq;
}
