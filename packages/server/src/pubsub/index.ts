/** The public interface of `@sluice/server/pubsub`. */

export { LeaseManager } from "./ack-deadlines.ts";
export { PubSubError } from "./errors.ts";
export { FlowControl } from "./flow-control.ts";
export { Message } from "./message.ts";
export { MessageQueue } from "./message-queue.ts";
export { MessageStream, type StopOptions } from "./message-stream.ts";
export type { FlowControlOptions, StreamingOptions, SubscriberOptions } from "./options.ts";
export { PubSub, type PubSubOptions } from "./pubsub.ts";
export { Subscription, type SubscriptionOptions } from "./subscription.ts";
export { type PublishedMessage, Topic } from "./topic.ts";
