/**
 * The ack id of a delivery: which message of which log, and the number of its lease. Clients treat it as opaque; the dispatcher
 * makes and reads it.
 *
 *     edition - log - generation - seq - lease        each in base 36
 *
 * Invariants: an id names one delivery and never another one. An id of an earlier edition is void after a seek.
 */
export interface AckId {
  readonly edition: number;
  /** The index of the log among those of the topic. */
  readonly log: number;
  readonly generation: number;
  readonly seq: number;
  readonly lease: number;
}

const BASE = 36;
const PARTS = 5;
const MAX_DIGITS = 11;
const DASH = 45;

/** What the ids of a log begin with; successive deliveries are of one log mostly. */
let last = { edition: -1, log: -1, generation: -1, beginning: "" };

export function formatAckId({ edition, log, generation, seq, lease }: AckId): string {
  if (last.edition !== edition || last.log !== log || last.generation !== generation) {
    const beginning = `${edition.toString(BASE)}-${log.toString(BASE)}-${generation.toString(BASE)}-`;
    last = { edition, log, generation, beginning };
  }
  return `${last.beginning}${seq.toString(BASE)}-${lease.toString(BASE)}`;
}

/** Undefined if the text was never an ack id. Read by hand, because every acknowledgement comes through here. */
export function parseAckId(text: string): AckId | undefined {
  const parts: number[] = [];
  let value = 0;
  let digits = 0;
  for (let i = 0; i <= text.length; i++) {
    const code = i === text.length ? DASH : text.charCodeAt(i);
    if (code === DASH) {
      if (digits === 0 || parts.length === PARTS) return undefined;
      parts.push(value);
      value = 0;
      digits = 0;
    } else {
      const digit = digitOf(code);
      if (digit < 0 || ++digits > MAX_DIGITS) return undefined;
      value = value * BASE + digit;
    }
  }
  if (parts.length !== PARTS) return undefined;
  const [edition, log, generation, seq, lease] = parts as [number, number, number, number, number];
  return { edition, log, generation, seq, lease };
}

/** The value of a digit or a lower-case letter; -1 for any other character. */
function digitOf(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  return code >= 97 && code <= 122 ? code - 87 : -1;
}
