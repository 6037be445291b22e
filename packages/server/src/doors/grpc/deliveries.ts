/**
 * Delivered messages as Google's messages, in responses of bounded size. Pull and StreamingPull use it.
 *
 * Invariants: a response has at least one message, however large that is.
 */
import { messageBytes } from "../../core/bytes.ts";
import type { Delivery, Subscription } from "../../pull/contract.ts";
import { spanOf } from "./wire.ts";

/** What a message takes besides its data and texts: its ids, its times and the heads of its fields. */
const MESSAGE_BYTES = 64;

/** What the messages of a subscription are told by: attempts are counted for clients only where dead letters need them. */
export type Told = Pick<Subscription, "deadLetter">;

export function receivedMessage(delivery: Delivery, { deadLetter }: Told): object {
  const { ackId, messageId, data, attributes, orderingKey = "", publishedAt, attempt } = delivery;
  return {
    ackId,
    message: { data, attributes, messageId, publishTime: spanOf(publishedAt), orderingKey },
    deliveryAttempt: deadLetter === undefined ? 0 : attempt,
  };
}

export interface Batch {
  readonly receivedMessages: readonly object[];
  readonly bytes: number;
}

export function* batchesOf(deliveries: readonly Delivery[], told: Told, maxBytes: number): Generator<Batch> {
  let receivedMessages: object[] = [];
  let bytes = 0;
  for (const delivery of deliveries) {
    const { data, orderingKey, attributes } = delivery;
    const length = MESSAGE_BYTES + messageBytes(data, orderingKey, attributes);
    if (bytes + length > maxBytes && receivedMessages.length > 0) {
      yield { receivedMessages, bytes };
      receivedMessages = [];
      bytes = 0;
    }
    receivedMessages.push(receivedMessage(delivery, told));
    bytes += length;
  }
  yield { receivedMessages, bytes };
}
