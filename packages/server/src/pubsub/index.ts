/** The public interface of `@sluice/server/pubsub`: the library of `@sluice/client/pubsub` over a store in this process. */

export {
  FlowControl,
  type FlowControlOptions,
  LeaseManager,
  Message,
  MessageQueue,
  MessageStream,
  type PublishedMessage,
  PubSubError,
  type StopOptions,
  type StreamingOptions,
  type SubscriberOptions,
  Subscription,
  type SubscriptionOptions,
  Topic,
} from "@sluice/client/pubsub";
export { PubSub, type PubSubOptions } from "./pubsub.ts";
