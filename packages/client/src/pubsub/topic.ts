/** A topic of a `PubSub`: create it, publish to it, subscribe to it. No call reaches the store before a method is called. */
import { CODE, PubSubError } from "./errors.ts";
import type { MessageQueue } from "./message-queue.ts";
import { Subscription, type SubscriptionOptions } from "./subscription.ts";

export interface PublishedMessage {
  /** May be left out if there is an attribute. */
  readonly data?: Uint8Array | undefined;
  /** Published as JSON, instead of data. */
  readonly json?: unknown;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
  readonly orderingKey?: string | undefined;
  /** The publisher's own id, for subscriptions that deduplicate. */
  readonly messageId?: string | undefined;
  /** No subscription delivers the message before this time. */
  readonly deliverAt?: Date | undefined;
}

const EMPTY = new Uint8Array(0);

export class Topic {
  constructor(
    readonly queue: MessageQueue,
    readonly name: string,
  ) {}

  /** Creates the topic; does nothing if it exists. */
  async create(): Promise<this> {
    await this.queue.createTopic(this.name);
    return this;
  }

  /** Deletes the topic. Its subscriptions stay, deliver no more, and tell it by an error. */
  async delete(): Promise<void> {
    await this.queue.deleteTopic(this.name);
  }

  async exists(): Promise<boolean> {
    try {
      await this.queue.topic(this.name);
      return true;
    } catch (fault) {
      if (fault instanceof PubSubError && fault.code === CODE.notFound) return false;
      throw fault;
    }
  }

  /** Resolves with the id of the message when it is durable. */
  async publishMessage(message: PublishedMessage): Promise<string> {
    const { data, json, attributes, orderingKey, messageId: id, deliverAt } = message;
    if (data !== undefined && !(data instanceof Uint8Array)) {
      throw new PubSubError(CODE.invalidArgument, "data must be a Buffer or a Uint8Array; send text with Buffer.from");
    }
    const bytes = json === undefined ? (data ?? EMPTY) : Buffer.from(JSON.stringify(json));
    const deliverAtMs = deliverAt?.getTime();
    const [published] = await this.queue.publish(this.name, [
      { data: bytes, attributes, orderingKey, id, deliverAtMs },
    ]);
    return published!;
  }

  publish(data: Uint8Array, attributes?: Readonly<Record<string, string>>): Promise<string> {
    return this.publishMessage({ data, attributes });
  }

  subscription(name: string, options: SubscriptionOptions = {}): Subscription {
    return new Subscription(this.queue, name, { ...options, topic: this.name });
  }
}
