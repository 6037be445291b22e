/**
 * The bounds of sessions and of fan-out, with their defaults. Compose hands them to the service; the configuration takes its
 * defaults from here, so that a default exists once.
 */
export interface SessionLimits {
  /** How long a session lives without being used. */
  readonly ttlSeconds: number;
  /** Streams that one session may follow. */
  readonly subscriptions: number;
  /** What is kept in an inbox; older copies go, and a reader that stood before them is told. */
  readonly keptMessages: number;
  readonly keptBytes: number;
  readonly cleanupMs: number;
  /** Sessions that are cleaned up at a time, and registries that each of them is taken out of at a time. */
  readonly cleanupSessions: number;
  readonly cleanupStreams: number;
  /** How soon an ending that was cut short is taken up again. */
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
  /** Copies on their way at a time, for one fan-out. */
  readonly batch: number;
  /** With more subscribers than this, copies go through the queue. */
  readonly queueThreshold: number;
  /** Sessions in one message of the queue. */
  readonly queueBatch: number;
  /** Whether there is a queue. */
  readonly queue: boolean;
  /** Messages of the queue that are worked on at a time, in this process. */
  readonly queueConsumers: number;
  /** While the engine is behind, how soon it is looked at again whether the queue may go on. */
  readonly queueYieldMs: number;
  /** How long the queue rests after each message while others append (0: not at all), and how long after the last append that ends. */
  readonly queueRestMs: number;
  readonly queueQuietMs: number;
  /** Without a queue, a publish to more subscribers than this does not wait for copies. */
  readonly maxInline: number;
  /** How long one copy may take. */
  readonly timeoutMs: number;
  /** Fan-outs with failures in a row after which a publish no longer waits for copies, and for how long. */
  readonly breakerFailures: number;
  readonly breakerRecoveryMs: number;
  /** A session that takes longer than this no longer holds up what comes next for the others. */
  readonly graceMs: number;
  /** How soon a copy that failed is tried again, and at most how late after it failed again and again. */
  readonly retryMs: number;
  readonly maxRetryMs: number;
  /** Where several nodes serve, how often one makes sure that a stream with subscribers is fanned out. */
  readonly checkMs: number;
  /** What one round of fan-out takes from the log at most. */
  readonly roundBytes: number;
  /** What the copies of one fan-out, or of one message of the queue, may have under way at a time. */
  readonly flightBytes: number;
  /** A payload above this is written once for all copies of it. */
  readonly shareBytes: number;
  /** What is kept of such payloads for one stream; beyond it, copies are whole again. */
  readonly sharedBytes: number;
  /** Rows, or streams, that are read at a time. */
  readonly pageRows: number;
  /** Streams with subscribers that are remembered while nothing happens to them. */
  readonly sources: number;
}

export const FANOUT_LIMITS: FanoutLimits = {
  batch: 50,
  queueThreshold: 200,
  queueBatch: 50,
  queue: true,
  queueConsumers: 2,
  queueYieldMs: 5,
  queueRestMs: 10,
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
};
