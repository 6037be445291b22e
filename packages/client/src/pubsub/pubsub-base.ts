/**
 * What every `PubSub` offers, whatever its queue stands on. `PubSub` of `@sluice/client/pubsub` and of `@sluice/server/pubsub` extend
 * it.
 *
 * Invariants: each `PubSub` has a queue of its own and shares nothing with another one.
 */
import type { MessageQueue } from "./message-queue.ts";
import { Subscription, type SubscriptionOptions } from "./subscription.ts";
import { Topic } from "./topic.ts";

export abstract class PubSubBase {
  constructor(readonly queue: MessageQueue) {}

  topic(name: string): Topic {
    return new Topic(this.queue, name);
  }

  subscription(name: string, options: SubscriptionOptions = {}): Subscription {
    return new Subscription(this.queue, name, options);
  }

  createTopic(name: string): Promise<Topic> {
    return this.topic(name).create();
  }

  createSubscription(topic: string | Topic, name: string, options: SubscriptionOptions = {}): Promise<Subscription> {
    return this.subscription(name, { ...options, topic }).create();
  }

  async getTopics(): Promise<Topic[]> {
    return (await this.queue.topics()).map(({ name }) => this.topic(name));
  }

  async getSubscriptions(): Promise<Subscription[]> {
    return (await this.queue.subscriptions()).map(({ name }) => this.subscription(name));
  }

  /** Gives back what is in flight, flushes and closes. Close subscriptions first to wait for what is in flight. */
  close(): Promise<void> {
    return this.queue.close();
  }
}
