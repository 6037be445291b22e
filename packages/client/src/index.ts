/** What a program that uses Sluice gets. */
export type { AppendLimits } from "./appender.ts";
export type { Retry, RetryOptions } from "./backoff.ts";
export type { AppendResult, Metadata } from "./batch.ts";
export { Channel } from "./channel.ts";
export type { ChannelGap, ChannelItem, ChannelPart, ChannelReadOptions } from "./channel-reader.ts";
export { type ClientErrorCode, SluiceError, type SluiceErrorCode } from "./error.ts";
export { ChannelPublisher, type PublisherOptions } from "./publisher.ts";
export type { Schema, SchemaIssue, SchemaResult } from "./schema.ts";
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
export type { Gap, ReadOptions, StreamItem, StreamMessage } from "./stream-reader.ts";
export type { TokenSource } from "./token.ts";
