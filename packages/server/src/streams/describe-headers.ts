/**
 * The headers and query parameters of streams on the wire, described once: for the OpenAPI document, and for the CORS headers
 * that follow from it. The limits are those that parsing enforces.
 */
import { BEGINNING, header, NOW } from "@sluice/protocol";
import { count, flag, offset, type Parameter, parameter, text, upTo } from "../core/describe.ts";
import { MAX_SHARDS } from "../core/shard-path.ts";
import { MAX_PATH_BYTES } from "./intake.ts";
import type { ListLimits } from "./limits.ts";
import {
  MAX_ATTRIBUTES_BYTES,
  MAX_CONTENT_TYPE_CHARS,
  MAX_ID_BYTES,
  MAX_KEY_BYTES,
  MAX_SEQ_CHARS,
  MAX_TTL_SECONDS,
} from "./parse.ts";

/** What a request may say. */
export const asks = {
  contentType: parameter(header.contentType, "A media type.", upTo(MAX_CONTENT_TYPE_CHARS)),
  ifNoneMatch: parameter(header.ifNoneMatch, "ETags that the client holds; 304 when one still fits.", text),
  closed: parameter(header.streamClosed, "Closes the stream with this request.", flag),
  seq: parameter(header.streamSeq, "Must sort after the one before it.", upTo(MAX_SEQ_CHARS)),
  ttl: parameter(header.streamTtl, "Seconds of disuse after which the stream goes.", count(0, MAX_TTL_SECONDS)),
  expiresAt: parameter(header.streamExpiresAt, "When the stream goes. Excludes Stream-TTL.", {
    type: "string",
    format: "date-time",
  }),
  maxMessages: parameter(header.streamMaxMessages, "Messages to keep.", count(1)),
  maxBytes: parameter(header.streamMaxBytes, "Bytes to keep.", count(1)),
  maxAge: parameter(header.streamMaxAgeSeconds, "Seconds to keep a message.", count(1, MAX_TTL_SECONDS)),
  shards: parameter(
    header.streamShards,
    "Makes a topic of so many streams, {path}/$shard/{i}. An append goes by key, else by producer, else round robin.",
    count(1, MAX_SHARDS),
  ),
  forkedFrom: parameter(
    header.streamForkedFrom,
    "The stream of this project to branch off from, by its path or the path of its URL.",
    text,
  ),
  forkOffset: parameter(header.streamForkOffset, "Where the branch starts; the tail unless given.", offset),
  forkSubOffset: parameter(header.streamForkSubOffset, "Messages after the fork offset to take along.", count()),
  producerId: parameter(header.producerId, "Who numbers its appends; all three or none.", upTo(MAX_ID_BYTES)),
  producerEpoch: parameter(header.producerEpoch, "Raised by a producer that starts anew.", count()),
  producerSeq: parameter(header.producerSeq, "Counts from 0 in each epoch; a repeated one appends nothing.", count()),
  messageId: parameter(header.messageId, "An id that goes with the message.", upTo(MAX_ID_BYTES)),
  messageKey: parameter(header.messageKey, "The ordering key of the message.", upTo(MAX_KEY_BYTES)),
  messageAttributes: parameter(
    header.messageAttributes,
    "A JSON object of strings that goes with the message.",
    upTo(MAX_ATTRIBUTES_BYTES),
  ),
} as const;

/** What a query may say. */
export const queries = {
  offset: parameter("offset", `Reads what follows: an offset of ours, ${BEGINNING} or ${NOW}.`, offset),
  last: parameter("last", "Instead of offset: starts with the last so many messages.", count()),
  since: parameter(
    "since",
    "Instead of offset: starts with what was published since a time in epoch ms, or a duration ago like 10m.",
    text,
  ),
  live: parameter("live", "Waits for what comes: long-poll or sse. Needs offset.", {
    type: "string",
    enum: ["long-poll", "sse"],
  }),
  format: parameter("format", "envelope gives each message with its offset and metadata.", {
    type: "string",
    enum: ["raw", "envelope"],
    default: "raw",
  }),
  cursor: parameter("cursor", "What Stream-Cursor said last, in live reads.", text),
  prefix: parameter("prefix", "What a path starts with.", { type: "string", maxLength: MAX_PATH_BYTES }),
  filter: parameter("filter", "A topic filter, with + for one level and # for all below.", {
    type: "string",
    maxLength: MAX_PATH_BYTES,
  }),
  after: parameter("after", "What next said: the page goes on after it.", {
    type: "string",
    maxLength: MAX_PATH_BYTES,
  }),
} as const;

export function limitQuery({ streams, defaultStreams }: ListLimits): Parameter {
  return parameter("limit", "Entries of a page.", { ...count(1, streams), default: defaultStreams });
}

/** What an answer may say. */
export const says = {
  nextOffset: parameter(header.streamNextOffset, "Where to go on reading.", offset),
  earliestOffset: parameter(header.streamEarliestOffset, "The earliest offset kept.", offset),
  upToDate: parameter(header.streamUpToDate, "The answer reaches to the tail.", flag),
  cursor: parameter(header.streamCursor, "To be given back as cursor.", text),
  closed: parameter(header.streamClosed, "Nothing will follow.", flag),
  ttl: parameter(header.streamTtl, "Seconds of disuse after which the stream goes.", count()),
  expiresAt: parameter(header.streamExpiresAt, "When the stream goes.", { type: "string", format: "date-time" }),
  maxMessages: parameter(header.streamMaxMessages, "Messages that are kept.", count(1)),
  maxBytes: parameter(header.streamMaxBytes, "Bytes that are kept.", count(1)),
  maxAge: parameter(header.streamMaxAgeSeconds, "Seconds that a message is kept.", count(1)),
  shards: parameter(header.streamShards, "How many shards the topic has.", count(1, MAX_SHARDS)),
  shard: parameter(header.streamShard, "The shard of the topic that the append went to.", count(0, MAX_SHARDS - 1)),
  encoding: parameter(header.sseDataEncoding, "How data events carry bytes.", { type: "string", enum: ["base64"] }),
  producerEpoch: parameter(header.producerEpoch, "The producer's epoch.", count()),
  producerSeq: parameter(header.producerSeq, "The producer's last sequence number.", count()),
  producerExpected: parameter(header.producerExpectedSeq, "The sequence number that was expected.", count()),
  producerReceived: parameter(header.producerReceivedSeq, "The sequence number that came.", count()),
  etag: parameter(header.etag, "Names what was read.", text),
  location: parameter(header.location, "The stream's URL.", { type: "string", format: "uri" }),
} as const;
