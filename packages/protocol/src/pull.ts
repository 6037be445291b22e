/**
 * Pull as it crosses the wire: topics, subscriptions, deliveries, streams, snapshots. The server's service of pull, its doors and
 * the library `@sluice/client/pubsub` share these types.
 *
 * A topic is a stream or a sharded topic. A subscription (in the rest of Sluice: a puller) is a durable cursor over one topic.
 *
 * Invariants: times are epoch ms. What is sent as JSON carries `data` as base64.
 */

// Topics.

export interface TopicSettings {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** How long the topic keeps messages; undefined keeps them until their stream's own retention takes them. */
  readonly retentionMs?: number | undefined;
  /** Settings that a door keeps for its clients and that change no behavior: schema, storage policy, key names. JSON. */
  readonly opaque?: Readonly<Record<string, unknown>> | undefined;
}

export interface Topic extends TopicSettings {
  readonly name: string;
  readonly createdAt: number;
}

export interface NewMessage {
  /** May be empty if there is an attribute. */
  readonly data: Uint8Array;
  /** At most 100, keys of at most 256 bytes and values of at most 1,024. */
  readonly attributes?: Readonly<Record<string, string>> | undefined;
  /** At most 1,024 bytes. */
  readonly orderingKey?: string | undefined;
  /** The publisher's own id, by which subscriptions with `deduplicates` recognize a repetition. */
  readonly id?: string | undefined;
  /** No subscription delivers the message before this time, epoch ms. */
  readonly deliverAtMs?: number | undefined;
}

// Subscriptions.

export interface RetryPolicy {
  /** The wait before the second attempt; it doubles with every further one, up to the longest. */
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
}

export interface DeadLetterPolicy {
  /** A topic of the same project; it is created when the first message goes there. */
  readonly topic: string;
  readonly maxAttempts: number;
}

export interface SubscriptionOptions {
  /** How long a delivered message may stay unacknowledged; 1 to 600 s. */
  readonly ackDeadlineMs: number;
  /** Messages with the same ordering key are delivered in their order. Immutable. */
  readonly isOrdered: boolean;
  /** Only messages whose attributes match are delivered; at most 256 bytes. Immutable. */
  readonly filter?: string | undefined;
  /** Only the newest ack id of a message counts. */
  readonly isExactlyOnce: boolean;
  readonly retryPolicy?: RetryPolicy | undefined;
  readonly deadLetter?: DeadLetterPolicy | undefined;
  /** Messages older than this are not delivered any more; undefined for never. */
  readonly retentionMs?: number | undefined;
  /** Retention of the topic keeps acknowledged messages too, for `retentionMs`, so that a seek finds them. */
  readonly retainsAcked: boolean;
  /** A message that repeats the id of one of the 10,000 messages before it is not delivered. */
  readonly deduplicates: boolean;
  /** Nothing is delivered; acknowledgements still count. */
  readonly isPaused: boolean;
  /** The subscription is deleted when it was not used for this long; undefined for never. */
  readonly expiresAfterMs?: number | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** As `TopicSettings.opaque`: push, BigQuery and storage configurations. */
  readonly opaque?: Readonly<Record<string, unknown>> | undefined;
}

/** What an existing subscription may change; a member that is present and undefined is removed. */
export type SubscriptionChange = Partial<Omit<SubscriptionOptions, "isOrdered" | "filter">>;

export interface Subscription extends SubscriptionOptions {
  readonly name: string;
  readonly topic: string;
  readonly createdAt: number;
  /** Its topic was deleted, and its backlog with it. A later topic of the same name is another one. */
  readonly isTopicDeleted: boolean;
  readonly isDetached: boolean;
}

/** How far a subscription is behind. */
export interface Backlog {
  /** Messages that are published and not acknowledged. One that the filter leaves out counts until it is read. */
  readonly lag: number;
  /** Messages that are delivered and not acknowledged; null if the node that serves the subscription does not answer. */
  readonly pending: number | null;
  /** The age of the oldest message that is not acknowledged; null without one. */
  readonly oldestUnackedMs: number | null;
}

export type SubscriptionInfo = Subscription & Backlog;

export interface NewSubscription extends Partial<SubscriptionOptions> {
  readonly topic: string;
  /** Where it begins: with the next message (the default), the earliest one kept, or those published from a time on. */
  readonly from?: "latest" | "earliest" | number | undefined;
}

/** `isNew` is false if it existed; its options were not compared. */
export interface Created<T> {
  readonly value: T;
  readonly isNew: boolean;
}

// Delivery.

export interface Delivery {
  readonly ackId: string;
  /** The offset of the message; for a sharded topic preceded by the number of its shard and a colon. */
  readonly messageId: string;
  readonly data: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  readonly orderingKey: string | undefined;
  /** Publish time, epoch ms. */
  readonly publishedAt: number;
  /** From 1 on. */
  readonly attempt: number;
  /** When the lease ends, unless it is extended, epoch ms. */
  readonly deadlineAt: number;
}

/** Limits of what is delivered and neither acknowledged, given back nor expired. A message that reaches a limit still goes. */
export interface FlowLimits {
  readonly maxMessages?: number | undefined;
  readonly maxBytes?: number | undefined;
  /** The limits are looked at before a batch only, so a batch may exceed them. */
  readonly allowsExcess?: boolean | undefined;
  /** Streams of a subscription with the same name share one set of limits; the newest stream's count. */
  readonly shareOf?: string | undefined;
}

export interface StreamOptions extends FlowLimits {
  /** How long messages are leased over this stream; the subscription's deadline by default. */
  readonly ackDeadlineMs?: number | undefined;
  /** Of an ordered subscription: the next message of a key is delivered when the one before it is acknowledged. */
  readonly isSequential?: boolean | undefined;
}

/** `topic-deleted` ends nothing: the subscription stays and delivers no more. */
export type StreamNotice = "topic-deleted";
/** Why a stream ends for good. `moved`: another node serves the subscription, so the client should connect again. */
export type StreamEnd = "subscription-deleted" | "detached" | "moved" | "draining";

export interface StreamEvents {
  /** Never called while the stream is paused. The leases began a moment ago. */
  deliver(messages: readonly Delivery[]): void;
  notice?(what: StreamNotice): void;
  /** The stream has room, and no message is ready for it. */
  idle?(): void;
  /** Called once, unless the caller closes the stream. */
  ended(why: StreamEnd): void;
}

export interface PullStream {
  /** No message is leased until `resume`, for instance while a write is blocked. Deadlines run on. */
  pause(): void;
  resume(): void;
  setAckDeadline(ms: number): void;
  setLimits(limits: FlowLimits): void;
  /** Delivers no more. Outstanding messages stay leased until they are acknowledged or expire. */
  close(): void;
}

/**
 * `done`: durable. `gone`: the ack id is unknown, or is not the newest of an exactly-once subscription; repeating is useless.
 * `failed`: not stored; the caller may repeat it.
 */
export type AckOutcome = "done" | "gone" | "failed";

export interface Pull {
  readonly maxMessages: number;
  readonly maxBytes?: number | undefined;
  /** How long to wait for a first message; 0 by default. */
  readonly waitMs?: number | undefined;
}

export type SeekTarget = { readonly timeMs: number } | { readonly snapshot: string };

// Snapshots.

export interface SnapshotSettings {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** As `TopicSettings.opaque`. */
  readonly opaque?: Readonly<Record<string, unknown>> | undefined;
}

export interface Snapshot extends SnapshotSettings {
  readonly name: string;
  readonly topic: string;
  readonly createdAt: number;
  readonly expiresAt: number;
}

// Lists.

export interface ListPage {
  /** The `next` of the page before. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

export interface Listed<T> {
  readonly items: readonly T[];
  readonly next: string | undefined;
}
