/**
 * A message as publishers give it and as subscribers get it: checks, and the attribute that carries a delay. The service and the
 * dispatcher call it.
 *
 * Invariants: what a topic takes through any door of pull stays within Google's limits.
 */
import { formatOffset, type Position } from "@sluice/protocol";
import { isLonger, isWellFormed, messageBytes } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import type { Lease } from "../leases/lease-core.ts";
import { formatAckId } from "./ack-id.ts";
import type { Delivery, NewMessage } from "./contract.ts";

/** The attribute that holds the time before which no subscription delivers the message, in epoch ms. */
export const DELIVER_AT = "sluice-deliver-at";

const MAX_ATTRIBUTES = 100;
const MAX_KEY_BYTES = 256;
const MAX_VALUE_BYTES = 1_024;
const MAX_ORDERING_KEY_BYTES = 1_024;
const MAX_ID_BYTES = 256;

/** Throws a Refusal for a message that no topic takes. */
export function checkMessage({ data, attributes = {}, orderingKey = "", id = "", deliverAtMs = 0 }: NewMessage): void {
  const entries = Object.entries(attributes);
  if (data.length === 0 && entries.length === 0) throw bad("needs data or an attribute");
  if (entries.length > MAX_ATTRIBUTES) throw bad(`may have at most ${MAX_ATTRIBUTES} attributes`);
  for (const [key, value] of entries) {
    if (key === "" || isLonger(key, MAX_KEY_BYTES)) throw bad(`has an attribute whose key is not 1 to 256 bytes long`);
    if (typeof value !== "string" || isLonger(value, MAX_VALUE_BYTES)) {
      throw bad(`has an attribute whose value is not a string of at most ${MAX_VALUE_BYTES} bytes`);
    }
    if (!isWellFormed(key) || !isWellFormed(value)) throw bad("has an attribute that UTF-8 cannot express");
  }
  if (isLonger(orderingKey, MAX_ORDERING_KEY_BYTES)) {
    throw bad(`has an ordering key of more than ${MAX_ORDERING_KEY_BYTES} bytes`);
  }
  if (isLonger(id, MAX_ID_BYTES)) throw bad(`has an id of more than ${MAX_ID_BYTES} bytes`);
  if (!Number.isSafeInteger(deliverAtMs) || deliverAtMs < 0) throw bad("has a delivery time that is not in epoch ms");
}

function bad(why: string): Refusal {
  return new Refusal("bad-request", `a message ${why}`);
}

export function attributesOf({ attributes, deliverAtMs }: NewMessage): Readonly<Record<string, string>> | undefined {
  if (deliverAtMs === undefined) return attributes;
  return { ...attributes, [DELIVER_AT]: String(deliverAtMs) };
}

/** The id of a message: its offset, and for a sharded topic its shard. */
export function messageIdOf(position: Position, shard: number | undefined): string {
  return shard === undefined ? formatOffset(position) : `${shard}:${formatOffset(position)}`;
}

/** What flow control counts of a message. */
export function sizeOf({ payload, key, attributes }: LoggedMessage): number {
  return messageBytes(payload, key, attributes);
}

export interface Leased {
  readonly lease: Lease;
  readonly edition: number;
  readonly log: number;
  readonly isSharded: boolean;
}

/** A leased message on its way to a subscriber. Its ids are made when they are asked for, because many subscribers use only one. */
class LeasedDelivery implements Delivery {
  readonly data: Uint8Array;
  readonly attempt: number;
  readonly deadlineAt: number;

  constructor(
    private readonly message: LoggedMessage,
    private readonly leased: Leased,
  ) {
    this.data = message.payload;
    // The lease may be extended before the subscriber looks.
    this.attempt = leased.lease.attempt;
    this.deadlineAt = leased.lease.untilMs;
  }

  get ackId(): string {
    const { lease, edition, log } = this.leased;
    const { generation, seq } = this.message.position;
    return formatAckId({ edition, log, generation, seq, lease: lease.number });
  }

  get messageId(): string {
    const { isSharded, log } = this.leased;
    return messageIdOf(this.message.position, isSharded ? log : undefined);
  }

  get attributes(): Readonly<Record<string, string>> {
    return deliveredAttributes(this.message.attributes);
  }

  get orderingKey(): string | undefined {
    return this.message.key;
  }

  get publishedAt(): number {
    return this.message.at;
  }
}

export function deliveryOf(message: LoggedMessage, leased: Leased): Delivery {
  return new LeasedDelivery(message, leased);
}

const NO_ATTRIBUTES: Readonly<Record<string, string>> = {};

/** Subscribers do not see what carries the delay. */
function deliveredAttributes(attributes = NO_ATTRIBUTES): Readonly<Record<string, string>> {
  if (attributes[DELIVER_AT] === undefined) return attributes;
  const { [DELIVER_AT]: _, ...others } = attributes;
  return others;
}
