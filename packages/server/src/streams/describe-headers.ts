/**
 * The headers and query parameters of streams, described once. The OpenAPI document and the CORS headers are built from
 * them.
 *
 * Invariants: the limits stated here are the limits that parsing enforces.
 */
import { BEGINNING, header, NOW } from "@sluice/protocol";
import { count, flag, offset, type Parameter, parameter, text, upTo } from "../core/describe.ts";
import { MAX_SHARDS } from "../core/shard-path.ts";
import type { ListLimits } from "./defaults.ts";
import { MAX_ATTRIBUTES_BYTES, MAX_ID_BYTES, MAX_KEY_BYTES, MAX_SEQ_CHARS } from "./parse.ts";
import { MAX_PATH_BYTES } from "./paths.ts";
import { MAX_CONTENT_TYPE_CHARS, MAX_TTL_SECONDS } from "./stream-config.ts";

/** Headers of a request. */
export const asks = {
  contentType: parameter(header.contentType, "A media type.", upTo(MAX_CONTENT_TYPE_CHARS)),
  ifNoneMatch: parameter(
    header.ifNoneMatch,
    "ETags that the client holds. The server answers 304 when one of them still matches.",
    text,
  ),
  closed: parameter(header.streamClosed, "Closes the stream with this request.", flag),
  seq: parameter(header.streamSeq, "Must sort after the previous Stream-Seq of this stream.", upTo(MAX_SEQ_CHARS)),
  ttl: parameter(
    header.streamTtl,
    "The stream expires after this many seconds without use.",
    count(0, MAX_TTL_SECONDS),
  ),
  expiresAt: parameter(header.streamExpiresAt, "When the stream expires. Cannot be combined with Stream-TTL.", {
    type: "string",
    format: "date-time",
  }),
  maxMessages: parameter(header.streamMaxMessages, "The most messages to keep.", count(1)),
  maxBytes: parameter(header.streamMaxBytes, "The most bytes to keep.", count(1)),
  maxAge: parameter(header.streamMaxAgeSeconds, "How many seconds to keep a message.", count(1, MAX_TTL_SECONDS)),
  shards: parameter(
    header.streamShards,
    "Creates a sharded topic of this many streams, {path}/$shard/{i}. An append is routed by key, else by producer, else round robin.",
    count(1, MAX_SHARDS),
  ),
  forkedFrom: parameter(
    header.streamForkedFrom,
    "The stream of this project to fork, by its path or by the path of its URL.",
    text,
  ),
  forkOffset: parameter(header.streamForkOffset, "Where the fork starts; the tail by default.", offset),
  forkSubOffset: parameter(
    header.streamForkSubOffset,
    "How many messages after the fork offset the fork includes.",
    count(),
  ),
  producerId: parameter(
    header.producerId,
    "Names the producer. Needs Producer-Epoch and Producer-Seq.",
    upTo(MAX_ID_BYTES),
  ),
  producerEpoch: parameter(header.producerEpoch, "The producer raises it when it starts again.", count()),
  producerSeq: parameter(
    header.producerSeq,
    "Counts from 0 in each epoch. A repeated number appends nothing.",
    count(),
  ),
  messageId: parameter(header.messageId, "An id stored with the message.", upTo(MAX_ID_BYTES)),
  messageKey: parameter(header.messageKey, "The ordering key of the message.", upTo(MAX_KEY_BYTES)),
  messageAttributes: parameter(
    header.messageAttributes,
    "A JSON object of strings, stored with the message.",
    upTo(MAX_ATTRIBUTES_BYTES),
  ),
} as const;

/** Query parameters. */
export const queries = {
  offset: parameter(
    "offset",
    `Reads the messages after it: an offset from this server, ${BEGINNING} or ${NOW}.`,
    offset,
  ),
  last: parameter("last", "Instead of offset: starts with the last n messages.", count()),
  since: parameter(
    "since",
    "Instead of offset: starts with the first message since a time in epoch ms, or since a duration ago like 10m.",
    text,
  ),
  live: parameter("live", "Waits for new messages: long-poll or sse. Needs offset, last or since.", {
    type: "string",
    enum: ["long-poll", "sse"],
  }),
  format: parameter("format", "With envelope, each message comes with its offset and metadata.", {
    type: "string",
    enum: ["raw", "envelope"],
    default: "raw",
  }),
  session: parameter("session", "The session whose client catches up with this read; for the metrics only.", text),
  cursor: parameter("cursor", "In live reads: the last Stream-Cursor that the client received.", text),
  prefix: parameter("prefix", "Lists only paths that start with it.", { type: "string", maxLength: MAX_PATH_BYTES }),
  filter: parameter("filter", "A topic filter: + matches one level, # matches all levels below.", {
    type: "string",
    maxLength: MAX_PATH_BYTES,
  }),
  after: parameter("after", "The value of next on the previous page.", {
    type: "string",
    maxLength: MAX_PATH_BYTES,
  }),
} as const;

export function limitQuery({ streams, defaultStreams }: ListLimits): Parameter {
  return parameter("limit", "The most entries on one page.", { ...count(1, streams), default: defaultStreams });
}

/** Headers of a response. */
export const says = {
  nextOffset: parameter(header.streamNextOffset, "The offset to continue reading from.", offset),
  earliestOffset: parameter(header.streamEarliestOffset, "The earliest offset that is kept.", offset),
  upToDate: parameter(header.streamUpToDate, "The response reaches the tail.", flag),
  cursor: parameter(header.streamCursor, "Send it as the query parameter cursor of the next live read.", text),
  closed: parameter(header.streamClosed, "The stream is closed; no message will follow.", flag),
  ttl: parameter(header.streamTtl, "The stream expires after this many seconds without use.", count()),
  expiresAt: parameter(header.streamExpiresAt, "When the stream expires.", { type: "string", format: "date-time" }),
  maxMessages: parameter(header.streamMaxMessages, "The most messages that are kept.", count(1)),
  maxBytes: parameter(header.streamMaxBytes, "The most bytes that are kept.", count(1)),
  maxAge: parameter(header.streamMaxAgeSeconds, "How many seconds a message is kept.", count(1)),
  shards: parameter(header.streamShards, "The number of shards of the topic.", count(1, MAX_SHARDS)),
  shard: parameter(header.streamShard, "The shard that the append was routed to.", count(0, MAX_SHARDS - 1)),
  encoding: parameter(header.sseDataEncoding, "How data events encode bytes.", { type: "string", enum: ["base64"] }),
  producerEpoch: parameter(header.producerEpoch, "The producer's epoch.", count()),
  producerSeq: parameter(header.producerSeq, "The producer's last sequence number.", count()),
  producerExpected: parameter(header.producerExpectedSeq, "The sequence number that was expected.", count()),
  producerReceived: parameter(header.producerReceivedSeq, "The sequence number that the request carried.", count()),
  etag: parameter(header.etag, "Identifies the page that was read.", text),
  location: parameter(header.location, "The stream's URL.", { type: "string", format: "uri" }),
} as const;
