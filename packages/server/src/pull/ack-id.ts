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

const PATTERN = /^[0-9a-z]{1,11}(-[0-9a-z]{1,11}){4}$/;
const BASE = 36;

export function formatAckId({ edition, log, generation, seq, lease }: AckId): string {
  const [e, l, g, s, n] = [edition, log, generation, seq, lease].map((number) => number.toString(BASE));
  return `${e}-${l}-${g}-${s}-${n}`;
}

/** Undefined if the text was never an ack id. */
export function parseAckId(text: string): AckId | undefined {
  if (!PATTERN.test(text)) return undefined;
  const [edition, log, generation, seq, lease] = text.split("-").map((part) => Number.parseInt(part, BASE));
  return { edition: edition!, log: log!, generation: generation!, seq: seq!, lease: lease! };
}
