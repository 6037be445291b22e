/**
 * Where a reader stands: the position *after* a message, as (generation, sequence).
 *
 * The text form has a fixed width, so that comparing two offsets as text compares them as positions. Clients treat it as
 * opaque. A generation is raised when a stream is created anew or when a loss of history was found, so that nothing
 * appended later ever sorts at or below an offset that was once shown.
 *
 *   0000000000000007_0000000000000042
 *   ^ generation     ^ number of the message this offset stands after
 */
export interface Position {
  readonly generation: number;
  readonly seq: number;
}

const DIGITS = 16;
const PATTERN = /^\d{16}_\d{16}$/;

/** Before everything: sorts at or below every offset of every stream. */
export const ZERO: Position = { generation: 0, seq: 0 };

/** The words a client may send instead of an offset. */
export const BEGINNING = "-1";
export const NOW = "now";

export function formatOffset({ generation, seq }: Position): string {
  return `${padded(generation)}_${padded(seq)}`;
}

const ZEROES = "0".repeat(DIGITS);

function padded(value: number): string {
  return (ZEROES + value).slice(-DIGITS);
}

/** The position an offset names, or undefined when the text is not one of ours. */
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
