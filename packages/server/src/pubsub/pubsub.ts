/**
 * The library's entrance: topics and subscriptions in this process, in memory or in a directory.
 *
 * Invariants: each `PubSub` has a queue of its own and shares nothing with another one.
 */
import type { World } from "../core/world.ts";
import { MessageQueue } from "./message-queue.ts";
import { Subscription, type SubscriptionOptions } from "./subscription.ts";
import { Topic } from "./topic.ts";

export interface PubSubOptions {
  /** A directory for durable data; without it everything is in memory. */
  readonly data?: string | undefined;
  /** The project that names belong to; a server on the same directory shows it under this name. */
  readonly projectId?: string | undefined;
}

export class PubSub {
  readonly queue: MessageQueue;

  /** Only tests pass a world. */
  constructor({ data, projectId = "default" }: PubSubOptions = {}, world?: World) {
    this.queue = new MessageQueue({ data, project: projectId, world });
  }

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
    return (await this.queue.topics()).map((name) => this.topic(name));
  }

  async getSubscriptions(): Promise<Subscription[]> {
    return (await this.queue.subscriptions()).map((name) => this.subscription(name));
  }

  /** Gives back what is in flight, flushes and closes. Close subscriptions first to wait for what is in flight. */
  close(): Promise<void> {
    return this.queue.close();
  }
}
