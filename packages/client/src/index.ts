/** The public interface of the package: everything that a program imports from `@sluice/client`. */
export type { AppendLimits } from "./appender.ts";
export type { Retry, RetryOptions } from "./backoff.ts";
export type { AppendResult, Fanout, Metadata, PublishResult } from "./batch.ts";
export { Channel, type ChannelMessage, type ChannelPublished, type StopOptions } from "./channel.ts";
export type {
  ChannelEvent,
  ChannelEventMessage,
  ChannelGap,
  ChannelItem,
  ChannelPart,
  ChannelReadOptions,
} from "./channel-reader.ts";
export type { CallOptions, HeaderSource } from "./connection.ts";
export { Encoded } from "./encoded.ts";
export { type ClientErrorCode, SluiceError, type SluiceErrorCode } from "./error.ts";
export type { Group } from "./group.ts";
export type { GroupEvent, GroupMode, GroupOptions, GroupStart } from "./group-options.ts";
export type { Backlog, Declaration, GroupInfo, ListedGroup, Redriven } from "./groups/admin.ts";
export type { GroupMessage } from "./groups/delivery.ts";
export type { CloseGroupOptions } from "./groups/member.ts";
export type { GroupHandler, RunOptions } from "./groups/runner.ts";
export { Inbox, type InboxInfo, type Subscribed, type SubscribeOptions } from "./inbox.ts";
export type { CatchUp, SubscriptionEnd } from "./live/cursor.ts";
export type { Member } from "./live/events.ts";
export type { LiveSession } from "./live/live-session.ts";
export type { Presence } from "./live/presence.ts";
export type {
  LiveEvents,
  LiveStatus,
  LiveSubscribeOptions,
  LiveSubscription,
  PresenceOptions,
} from "./live/subscribe-options.ts";
export type { StreamMessage } from "./message.ts";
export type { OwnNumbers } from "./producer.ts";
export { ChannelPublisher, type PublisherOptions } from "./publisher.ts";
export type { Gap, Mark, MarkedReadOptions, PageOptions, ReadOptions, StreamItem, StreamPage } from "./read-options.ts";
export type { Schema, SchemaIssue, SchemaResult } from "./schema.ts";
export type { SessionOptions } from "./session-options.ts";
export { type ListedStream, type ListOptions, Sluice, type SluiceOptions } from "./sluice.ts";
export { type SseEvent, SseParser } from "./sse-parser.ts";
export { type Closed, type CloseOptions, type Deleted, Stream, type StreamOptions } from "./stream.ts";
export type { Created, CreateOptions, StreamInfo, StreamLimits } from "./stream-info.ts";
export type { ExpiringToken, TokenSource } from "./token.ts";
