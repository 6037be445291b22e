/** The options of a subscriber, and their defaults. */
export interface FlowControlOptions {
  /** Messages in flight; 1,000 by default. */
  readonly maxMessages?: number | undefined;
  /** Their bytes; 100 MB by default. */
  readonly maxBytes?: number | undefined;
  /** Whether the batch that reaches a limit is delivered whole; false by default. */
  readonly allowExcessMessages?: boolean | undefined;
}

export interface StreamingOptions {
  /** Streams that pull at the same time; 5 by default. */
  readonly maxStreams?: number | undefined;
  /** Messages that are pulled beyond `maxMessages` and wait here; 0 by default. */
  readonly highWaterMark?: number | undefined;
}

export interface SubscriberOptions {
  readonly flowControl?: FlowControlOptions | undefined;
  /** Seconds, from 1 to 600; 60 by default. */
  readonly ackDeadline?: number | undefined;
  /** Whether messages with the same ordering key are delivered one after another; false by default. */
  readonly messageOrdering?: boolean | undefined;
  readonly streamingOptions?: StreamingOptions | undefined;
}

export const DEFAULT_MAX_MESSAGES = 1_000;
export const DEFAULT_MAX_BYTES = 100 * 1_024 * 1_024;
export const DEFAULT_ACK_DEADLINE_SECONDS = 60;
export const DEFAULT_MAX_STREAMS = 5;

/** All options, the missing ones with their defaults. */
export interface Resolved {
  readonly maxMessages: number;
  readonly maxBytes: number;
  readonly allowsExcess: boolean;
  readonly ackDeadlineMs: number;
  readonly isOrdered: boolean;
  readonly maxStreams: number;
  readonly highWaterMark: number;
}

export function resolved({ flowControl, ackDeadline, messageOrdering, streamingOptions }: SubscriberOptions): Resolved {
  return {
    maxMessages: flowControl?.maxMessages ?? DEFAULT_MAX_MESSAGES,
    maxBytes: flowControl?.maxBytes ?? DEFAULT_MAX_BYTES,
    allowsExcess: flowControl?.allowExcessMessages ?? false,
    ackDeadlineMs: Math.round((ackDeadline ?? DEFAULT_ACK_DEADLINE_SECONDS) * 1_000),
    isOrdered: messageOrdering ?? false,
    maxStreams: streamingOptions?.maxStreams ?? DEFAULT_MAX_STREAMS,
    highWaterMark: streamingOptions?.highWaterMark ?? 0,
  };
}

/** Options that are given replace those before them, group by group. */
export function merged(before: SubscriberOptions, given: SubscriberOptions): SubscriberOptions {
  return {
    ...before,
    ...given,
    flowControl: { ...before.flowControl, ...given.flowControl },
    streamingOptions: { ...before.streamingOptions, ...given.streamingOptions },
  };
}
