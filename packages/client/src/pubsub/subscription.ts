/**
 * A subscription of a `PubSub`: create it, open it, get its messages as events or by iteration. Made by `topic.subscription` and
 * `pubsub.subscription`; no call reaches the store before a method is called.
 *
 * Events: `message` (Message), `error` (PubSubError), `close`.
 */
import { EventEmitter } from "node:events";
import type { Subscription as Stored } from "@sluice/protocol/pull";
import { CODE, PubSubError } from "./errors.ts";
import type { Message } from "./message.ts";
import type { MessageQueue } from "./message-queue.ts";
import { MessageStream, type StopOptions } from "./message-stream.ts";
import { merged, resolved, type SubscriberOptions } from "./options.ts";

export interface SubscriptionOptions extends SubscriberOptions {
  /** The topic, if the subscription is not made through one. */
  readonly topic?: string | { readonly name: string } | undefined;
  /** Only messages whose attributes match are delivered. Counts when the subscription is created. */
  readonly filter?: string | undefined;
  readonly retryPolicy?: { readonly minimumBackoff?: number; readonly maximumBackoff?: number } | undefined;
  readonly deadLetterPolicy?: { readonly deadLetterTopic: string; readonly maxDeliveryAttempts: number } | undefined;
  readonly enableExactlyOnceDelivery?: boolean | undefined;
}

interface Events {
  message: [Message];
  error: [Error];
  close: [];
  newListener: [string | symbol];
}

const MIN_BACKOFF_SECONDS = 10;
const MAX_BACKOFF_SECONDS = 600;

export class Subscription extends EventEmitter<Events> implements AsyncIterable<Message> {
  private messages: MessageStream | undefined;

  constructor(
    readonly queue: MessageQueue,
    readonly name: string,
    private options: SubscriptionOptions = {},
  ) {
    super();
    // What was delivered before the first listener came waits for it.
    this.on("newListener", (event) => {
      if (event === "message") queue.world.soon(() => this.messages?.drain());
    });
  }

  get isOpen(): boolean {
    return this.messages !== undefined;
  }

  /** Creates the subscription. If it exists on the same topic, applies the options to it. */
  async create(options: SubscriptionOptions = {}): Promise<this> {
    this.options = { ...this.options, ...options, ...merged(this.options, options) };
    const { ackDeadlineMs, isOrdered } = resolved(this.options);
    const { filter, enableExactlyOnceDelivery: isExactlyOnce } = this.options;
    const change = { ackDeadlineMs, ...this.policies(), ...(isExactlyOnce !== undefined && { isExactlyOnce }) };
    const topic = await this.topicName();
    const { value, isNew } = await this.queue.createSubscription(this.name, { topic, isOrdered, filter, ...change });
    if (isNew) return this;
    if (value.topic !== topic || value.isTopicDeleted) {
      throw new PubSubError(CODE.alreadyExists, `The subscription exists on the topic ${value.topic}`);
    }
    if (value.isOrdered !== isOrdered) {
      throw new PubSubError(
        CODE.failedPrecondition,
        "messageOrdering is set when a subscription is created, and stays",
      );
    }
    await this.queue.updateSubscription(this.name, change);
    return this;
  }

  private policies() {
    const { retryPolicy, deadLetterPolicy } = this.options;
    return {
      ...(retryPolicy && {
        retryPolicy: {
          minBackoffMs: (retryPolicy.minimumBackoff ?? MIN_BACKOFF_SECONDS) * 1_000,
          maxBackoffMs: (retryPolicy.maximumBackoff ?? MAX_BACKOFF_SECONDS) * 1_000,
        },
      }),
      ...(deadLetterPolicy && {
        deadLetter: { topic: deadLetterPolicy.deadLetterTopic, maxAttempts: deadLetterPolicy.maxDeliveryAttempts },
      }),
    };
  }

  /** The topic that is given, else that of the existing subscription, else the only topic there is. */
  private async topicName(): Promise<string> {
    const { topic } = this.options;
    if (topic !== undefined) return typeof topic === "string" ? topic : topic.name;
    const known = await this.find();
    if (known !== undefined) return known.topic;
    const [only, ...others] = await this.queue.topics();
    if (only !== undefined && others.length === 0) return only.name;
    throw new PubSubError(CODE.invalidArgument, "Which topic? Give one by topic.subscription(name) or { topic }");
  }

  private async find(): Promise<Stored | undefined> {
    try {
      return await this.queue.subscription(this.name);
    } catch (fault) {
      if (fault instanceof PubSubError && fault.code === CODE.notFound) return undefined;
      throw fault;
    }
  }

  async exists(): Promise<boolean> {
    return (await this.find()) !== undefined;
  }

  /** What is stored of it. */
  metadata(): Promise<Stored> {
    return this.queue.subscription(this.name);
  }

  /** Begins to deliver messages. */
  open(): void {
    if (this.messages !== undefined) return;
    this.messages = new MessageStream(this, this.options);
    this.once("close", () => {
      this.messages = undefined;
    });
    this.messages.start();
  }

  /** Stops delivery. By default it waits until what is in flight is answered or has expired. */
  async close(options?: StopOptions): Promise<void> {
    await this.messages?.stop(options);
  }

  pause(): void {
    this.messages?.pause();
  }

  resume(): void {
    this.messages?.resume();
  }

  /** Applies at the next pull. */
  setOptions(options: SubscriberOptions): void {
    this.options = { ...this.options, ...merged(this.options, options) };
    this.messages?.setOptions(options);
  }

  async delete(): Promise<void> {
    await this.queue.deleteSubscription(this.name);
  }

  async detach(): Promise<void> {
    await this.queue.detachSubscription(this.name);
  }

  /** Delivers again what was published from a time on, or what a snapshot had not acknowledged. */
  async seek(to: Date | string): Promise<void> {
    await this.queue.seek(this.name, typeof to === "string" ? { snapshot: to } : { timeMs: to.getTime() });
  }

  async createSnapshot(name: string): Promise<void> {
    await this.queue.createSnapshot(name, this.name);
  }

  /** Opens the subscription and yields its messages; leaving the loop closes it. An error ends the loop. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Message, void> {
    const waiting: Message[] = [];
    let wake = () => {};
    let error: Error | undefined;
    let isClosed = false;
    const take = (message: Message) => {
      waiting.push(message);
      wake();
    };
    const fail = (fault: Error) => {
      error = fault;
      wake();
    };
    const end = () => {
      isClosed = true;
      wake();
    };
    this.on("message", take).on("error", fail).on("close", end);
    this.open();
    try {
      for (;;) {
        const message = waiting.shift();
        if (message !== undefined) yield message;
        else if (error !== undefined) throw error;
        else if (isClosed) return;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    } finally {
      this.off("message", take).off("close", end);
      for (const message of waiting) message.nack();
      await this.close({ mode: "nack" });
      this.off("error", fail);
    }
  }
}
