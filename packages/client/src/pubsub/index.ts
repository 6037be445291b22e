/** The public interface of `@sluice/client/pubsub`. `@sluice/server/pubsub` has the same classes over a store in process. */

export { LeaseManager } from "./ack-deadlines.ts";
export { PubSubError } from "./errors.ts";
export { FlowControl } from "./flow-control.ts";
export { Message } from "./message.ts";
export { MessageQueue } from "./message-queue.ts";
export { MessageStream, type StopOptions } from "./message-stream.ts";
export type { FlowControlOptions, StreamingOptions, SubscriberOptions } from "./options.ts";
export type { PullPort, QueueWorld } from "./port.ts";
export { PubSub, type PubSubOptions } from "./pubsub.ts";
export { PubSubBase } from "./pubsub-base.ts";
export { Subscription, type SubscriptionOptions } from "./subscription.ts";
export { type PublishedMessage, Topic } from "./topic.ts";
