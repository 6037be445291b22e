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
/** 36 ** 10 is below 2 ** 53; numbers of 11 digits may be as well. */
const MAX_DIGITS = 11;
const DASH = 0x2d;

export function formatAckId({ edition, log, generation, seq, lease }: AckId): string {
  return `${edition.toString(BASE)}-${log.toString(BASE)}-${generation.toString(BASE)}-${seq.toString(BASE)}-${lease.toString(BASE)}`;
}

/** Undefined if the text was never an ack id. Read by hand, because every acknowledgement comes through here. */
export function parseAckId(text: string): AckId | undefined {
  const parts = [0];
  let digits = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === DASH) {
      if (digits === 0 || parts.push(0) > PARTS) return undefined;
      digits = 0;
      continue;
    }
    const digit = digitOf(code);
    if (digit === undefined || ++digits > MAX_DIGITS) return undefined;
    parts[parts.length - 1] = parts.at(-1)! * BASE + digit;
  }
  if (digits === 0 || parts.length < PARTS) return undefined;
  const [edition, log, generation, seq, lease] = parts as [number, number, number, number, number];
  return { edition, log, generation, seq, lease };
}

function digitOf(code: number): number | undefined {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  return code >= 0x61 && code <= 0x7a ? code - 0x61 + 10 : undefined;
}
