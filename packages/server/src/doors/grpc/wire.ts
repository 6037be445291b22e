/**
 * The messages of `google.pubsub.v1` as the door reads and writes them: the members that it knows, as protobufjs decodes them.
 *
 * Invariants: a member that a client left out has its default: 0, "", false, an empty list or map, or null for a message.
 */

/** A 64-bit number: a `Long` where it was decoded. `Number` reads both. */
export type Int64 = number | { toString(): string };

export interface Span {
  readonly seconds: Int64;
  readonly nanos: number;
}

export type Labels = Readonly<Record<string, string>>;
/** A message that is stored as it came, and means nothing to the server. */
export type Kept = object | null;

export interface TopicWire {
  readonly name: string;
  readonly labels: Labels;
  readonly messageStoragePolicy: Kept;
  readonly kmsKeyName: string;
  readonly schemaSettings: SchemaSettingsWire | null;
  readonly messageRetentionDuration: Span | null;
  readonly ingestionDataSourceSettings: Kept;
  readonly messageTransforms: readonly object[];
}

export interface SchemaSettingsWire {
  readonly schema: string;
  readonly encoding: number;
  readonly firstRevisionId?: string;
  readonly lastRevisionId?: string;
}

export interface SubscriptionWire {
  readonly name: string;
  readonly topic: string;
  readonly pushConfig: Kept;
  readonly bigqueryConfig: Kept;
  readonly cloudStorageConfig: Kept;
  readonly bigtableConfig: Kept;
  readonly ackDeadlineSeconds: number;
  readonly retainAckedMessages: boolean;
  readonly messageRetentionDuration: Span | null;
  readonly labels: Labels;
  readonly enableMessageOrdering: boolean;
  readonly expirationPolicy: { readonly ttl: Span | null } | null;
  readonly filter: string;
  readonly deadLetterPolicy: { readonly deadLetterTopic: string; readonly maxDeliveryAttempts: number } | null;
  readonly retryPolicy: { readonly minimumBackoff: Span | null; readonly maximumBackoff: Span | null } | null;
  readonly enableExactlyOnceDelivery: boolean;
  readonly messageTransforms: readonly object[];
}

export interface MessageWire {
  readonly data: Uint8Array;
  readonly attributes: Labels;
  readonly orderingKey: string;
}

export interface PageWire {
  readonly pageSize: number;
  readonly pageToken: string;
}

export interface Masked {
  readonly updateMask: { readonly paths: readonly string[] } | null;
}

export interface StreamingPullWire {
  readonly subscription: string;
  readonly ackIds: readonly string[];
  readonly modifyDeadlineSeconds: readonly number[];
  readonly modifyDeadlineAckIds: readonly string[];
  readonly streamAckDeadlineSeconds: number;
  readonly maxOutstandingMessages: Int64;
  readonly maxOutstandingBytes: Int64;
}

export function msOf({ seconds, nanos }: Span): number {
  return Number(seconds) * 1_000 + nanos / 1_000_000;
}

export function spanOf(ms: number): Span {
  const seconds = Math.floor(ms / 1_000);
  return { seconds, nanos: Math.round((ms - seconds * 1_000) * 1_000_000) };
}
