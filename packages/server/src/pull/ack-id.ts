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

const PATTERN = /^([0-9a-z]{1,11})-([0-9a-z]{1,11})-([0-9a-z]{1,11})-([0-9a-z]{1,11})-([0-9a-z]{1,11})$/;
const BASE = 36;

export function formatAckId({ edition, log, generation, seq, lease }: AckId): string {
  return `${edition.toString(BASE)}-${log.toString(BASE)}-${generation.toString(BASE)}-${seq.toString(BASE)}-${lease.toString(BASE)}`;
}

/** Undefined if the text was never an ack id. */
export function parseAckId(text: string): AckId | undefined {
  const found = PATTERN.exec(text);
  if (found === null) return undefined;
  return {
    edition: Number.parseInt(found[1]!, BASE),
    log: Number.parseInt(found[2]!, BASE),
    generation: Number.parseInt(found[3]!, BASE),
    seq: Number.parseInt(found[4]!, BASE),
    lease: Number.parseInt(found[5]!, BASE),
  };
}
