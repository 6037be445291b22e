/** The public interface of the package: everything that a program imports from `@sluice/client`. */
export type { AppendLimits } from "./appender.ts";
export type { Retry, RetryOptions } from "./backoff.ts";
export type { AppendResult, Fanout, Metadata, PublishResult } from "./batch.ts";
export { Channel, type ChannelMessage, type ChannelPublished } from "./channel.ts";
export type {
  ChannelEvent,
  ChannelEventMessage,
  ChannelGap,
  ChannelItem,
  ChannelPart,
  ChannelReadOptions,
} from "./channel-reader.ts";
export { Encoded } from "./encoded.ts";
export { type ClientErrorCode, SluiceError, type SluiceErrorCode } from "./error.ts";
export { ChannelPublisher, type PublisherOptions } from "./publisher.ts";
export type { Schema, SchemaIssue, SchemaResult } from "./schema.ts";
export { Session, type SessionInfo, type Subscribed, type SubscribeOptions } from "./session.ts";
export { type ListedStream, type ListOptions, Sluice, type SluiceOptions } from "./sluice.ts";
export { type SseEvent, SseParser } from "./sse-parser.ts";
export {
  type CallOptions,
  type CreateOptions,
  Stream,
  type StreamInfo,
  type StreamLimits,
  type StreamOptions,
} from "./stream.ts";
export type { Gap, PageOptions, ReadOptions, StreamItem, StreamMessage, StreamPage } from "./stream-reader.ts";
export type { TokenSource } from "./token.ts";
