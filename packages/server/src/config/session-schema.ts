/** The settings of sessions and of fan-out; a part of the schema. The defaults are those of the sessions feature. */
import { FANOUT_LIMITS as FANOUT, SESSION_LIMITS as SESSION } from "../sessions/limits.ts";
import { bytes, count, ms, yesNo } from "./setting.ts";

export const session = {
  subscriptions: count(SESSION.subscriptions, "Streams that one session may be subscribed to."),
  keptMessages: count(SESSION.keptMessages, "Copies that are kept in a session's stream; up to a twentieth more are."),
  keptBytes: bytes(
    SESSION.keptBytes,
    "Bytes of copies that are kept in a session's stream, large payloads not counted.",
  ),
  cleanupMs: ms(SESSION.cleanupMs, "How often sessions that are over are cleaned up.", { min: 10 }),
  cleanupSessions: count(SESSION.cleanupSessions, "Sessions that are cleaned up at a time."),
  cleanupStreams: count(SESSION.cleanupStreams, "Subscriptions of each that are ended at a time."),
  endAgainMs: ms(SESSION.endAgainMs, "How soon an ending that was cut short is taken up again."),
  bodyBytes: bytes(SESSION.bodyBytes, "The largest body of a request about a session."),
  pageRows: count(SESSION.pageRows, "Subscriptions that are read from the store at a time."),
};

export const fanout = {
  batch: count(FANOUT.batch, "Copies of one fan-out that are written at a time."),
  queueThreshold: count(FANOUT.queueThreshold, "With more subscribers a publish does not wait, and copies are queued."),
  queueBatch: count(FANOUT.queueBatch, "Sessions in one message of the queue."),
  queue: yesNo(FANOUT.queue, "Whether there is a queue."),
  queueConsumers: count(FANOUT.queueConsumers, "Messages of the queue that are worked on at a time."),
  queueYieldMs: ms(
    FANOUT.queueYieldMs,
    "How long the queue rests before it looks again, when the store cannot keep up with the journal.",
  ),
  queueRestMs: ms(
    FANOUT.queueRestMs,
    "How long the queue rests after each of its messages while others append, so that they are not held up; 0 for not at all.",
    { min: 0 },
  ),
  queueQuietMs: ms(FANOUT.queueQuietMs, "When nothing was appended for this long, the queue does not rest any more."),
  maxInline: count(FANOUT.maxInline, "Without a queue, a publish to more subscribers than this does not wait."),
  timeoutMs: ms(FANOUT.timeoutMs, "How long one copy may take."),
  breakerFailures: count(FANOUT.breakerFailures, "Fan-outs with failures in a row after which publishes do not wait."),
  breakerRecoveryMs: ms(FANOUT.breakerRecoveryMs, "After this time one publish waits again, to see whether it works."),
  graceMs: ms(FANOUT.graceMs, "A session that takes longer no longer holds up what follows for the others."),
  retryMs: ms(FANOUT.retryMs, "The wait before a copy that failed is tried again; it doubles with each failure."),
  maxRetryMs: ms(FANOUT.maxRetryMs, "The longest such wait."),
  checkMs: ms(FANOUT.checkMs, "On Redis, how often a node makes sure that no other has left a fan-out behind."),
  roundBytes: bytes(FANOUT.roundBytes, "What is copied at a time, unless a single message is larger."),
  flightBytes: bytes(FANOUT.flightBytes, "What copies of one fan-out may have under way at a time, in bytes."),
  shareBytes: bytes(FANOUT.shareBytes, "Payloads above this are written once for all copies.", { min: 0 }),
  sharedBytes: bytes(FANOUT.sharedBytes, "How much is kept of such payloads for one stream; then copies are whole."),
  pageRows: count(FANOUT.pageRows, "Subscribers that are read from the store at a time."),
  sources: count(FANOUT.sources, "Streams with subscribers that are kept at hand when idle.", { min: 10 }),
};
