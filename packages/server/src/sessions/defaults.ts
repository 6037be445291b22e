/**
 * The limits of sessions and of fan-out, with their defaults. Compose passes them to the service. The configuration
 * takes its defaults from here, so that each default exists once.
 */
export interface SessionLimits {
  /** How long a session lives without use. */
  readonly ttlSeconds: number;
  /** Streams that one session may follow. */
  readonly subscriptions: number;
  /** What an inbox keeps. Older copies are trimmed, and a reader that stood before them gets 410. */
  readonly keptMessages: number;
  readonly keptBytes: number;
  readonly cleanupMs: number;
  /** Sessions that are cleaned up at a time, and registries that each of them is removed from at a time. */
  readonly cleanupSessions: number;
  readonly cleanupStreams: number;
  /** How soon an interrupted deletion is resumed. */
  readonly endAgainMs: number;
  /** The body of a request about a session. */
  readonly bodyBytes: number;
  /** Rows that are read at a time. */
  readonly pageRows: number;
}

export const SESSION_LIMITS: SessionLimits = {
  ttlSeconds: 1_800,
  subscriptions: 1_000,
  keptMessages: 100_000,
  keptBytes: 64 * 1024 * 1024,
  cleanupMs: 300_000,
  cleanupSessions: 10,
  cleanupStreams: 20,
  endAgainMs: 10_000,
  bodyBytes: 16_384,
  pageRows: 1_000,
};

export interface FanoutLimits {
  /** Concurrent copies of one fan-out. */
  readonly batch: number;
  /** With more subscribers than this, copies go through the queue. */
  readonly queueThreshold: number;
  /** Sessions in one message of the queue. */
  readonly queueBatch: number;
  /** Whether the queue is used. */
  readonly queue: boolean;
  /** Messages of the queue that this process works on at a time. */
  readonly queueConsumers: number;
  /** While the engine is behind, how soon the queue checks again. */
  readonly queueYieldMs: number;
  /**
   * While clients append, the queue starts its messages at least this far apart, also those that it works on at a time. Copies that
   * start together are flushed together, and an append that comes then waits for all of them. Messages appended meanwhile join
   * the same copies. `queueQuietMs` after the last append the queue goes through without pauses.
   */
  readonly queuePaceMs: number;
  readonly queueQuietMs: number;
  /** Without a queue, a publish to more subscribers than this does not wait for copies. */
  readonly maxInline: number;
  /** The timeout of one copy. */
  readonly timeoutMs: number;
  /** Consecutive fan-outs with failures after which a publish no longer waits for copies, and for how long. */
  readonly breakerFailures: number;
  readonly breakerRecoveryMs: number;
  /** A session that takes longer than this no longer delays the next round. */
  readonly graceMs: number;
  /** The first delay before a failed copy is retried, and the longest delay after repeated failures. */
  readonly retryMs: number;
  readonly maxRetryMs: number;
  /** Where several nodes serve, how often a node checks that a stream with subscribers is fanned out. */
  readonly checkMs: number;
  /** The most bytes that one round takes from the log. */
  readonly roundBytes: number;
  /** Bytes of concurrent copies, for one fan-out or one message of the queue. */
  readonly flightBytes: number;
  /** A payload above this size is stored once for all copies of it. */
  readonly shareBytes: number;
  /** Bytes of such payloads kept for one stream. Beyond it, copies carry their payloads. */
  readonly sharedBytes: number;
  /** Rows, or streams, that are read at a time. */
  readonly pageRows: number;
  /** Sources that are remembered while they are idle, and the subscribers that all of them may remember. */
  readonly sources: number;
  readonly members: number;
}

export const FANOUT_LIMITS: FanoutLimits = {
  batch: 50,
  queueThreshold: 200,
  queueBatch: 50,
  queue: true,
  queueConsumers: 2,
  queueYieldMs: 5,
  queuePaceMs: 6,
  queueQuietMs: 250,
  maxInline: 1_000,
  timeoutMs: 10_000,
  breakerFailures: 5,
  breakerRecoveryMs: 60_000,
  graceMs: 250,
  retryMs: 500,
  maxRetryMs: 30_000,
  checkMs: 60_000,
  roundBytes: 256 * 1024,
  flightBytes: 4 * 1024 * 1024,
  shareBytes: 1_024,
  sharedBytes: 1024 * 1024 * 1024,
  pageRows: 1_000,
  sources: 1_000,
  members: 200_000,
};
