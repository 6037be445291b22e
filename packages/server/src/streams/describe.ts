/** The routes of streams, described for the OpenAPI document. */
import { z } from "zod";
import { bytes, type Description, type Parameter } from "../core/describe.ts";
import { asks, limitQuery, queries, says } from "./describe-headers.ts";
import type { ListLimits } from "./limits.ts";

const tail = [says.nextOffset, says.closed];
const appendTail = [...tail, says.shard, says.producerEpoch, says.producerSeq];
const page = [says.nextOffset, says.upToDate, says.closed, says.cursor, says.etag];
const body = { "application/json": bytes, "*/*": bytes };

export const envelopes = z
  .array(
    z.object({
      offset: z.string(),
      payload: z.unknown(),
      contentType: z.string(),
      encoding: z.literal("base64").optional(),
      publishedAt: z.number(),
      id: z.string().optional(),
      key: z.string().optional(),
      attributes: z.record(z.string(), z.string()).optional(),
    }),
  )
  .describe("With format=envelope.");

const jsonPage = z.union([envelopes, z.array(z.unknown()).describe("The messages of a JSON stream.")]);

export const streamList = z.object({
  streams: z.array(
    z.object({
      path: z.string(),
      contentType: z.string(),
      nextOffset: z.string(),
      messages: z.number(),
      bytes: z.number(),
      closed: z.boolean(),
      createdAt: z.number(),
      lastAppendAt: z.number().nullable(),
      expiresAt: z.number().nullable(),
      shards: z.number().describe("Of a sharded topic.").optional(),
    }),
  ),
  next: z.string().describe("Where the next page starts; absent on the last one.").optional(),
});

/** Publishing is appending, and tells something more. */
export function appendDescription(summary: string, more: readonly Parameter[] = []): Description {
  return {
    summary,
    says: "The answer means that they are durable. A JSON array is as many messages; anything else is one.",
    headers: [
      asks.contentType,
      asks.closed,
      asks.seq,
      asks.producerId,
      asks.producerEpoch,
      asks.producerSeq,
      asks.messageId,
      asks.messageKey,
      asks.messageAttributes,
    ],
    body: { isRequired: false, content: body },
    answers: {
      200: { says: "Appended, by a producer.", headers: [...appendTail, ...more] },
      204: {
        says: "Appended; or a producer's repeated request, which appended nothing.",
        headers: [...appendTail, ...more],
      },
    },
    refuses: [
      "bad-header",
      "bad-body",
      "empty-body",
      "reserved-name",
      "too-large",
      "stream-not-found",
      "stream-gone",
      "stream-closed",
      "content-type-mismatch",
      "sequence-regression",
      "producer-fenced",
      "producer-gap",
      "producer-epoch-start",
    ],
  };
}

export const describeStreams = (list: ListLimits) =>
  ({
    "stream.create": {
      summary: "Create a stream, or confirm that it is there",
      says: "A body becomes the first messages. A stream that exists with the same configuration is confirmed.",
      headers: [
        asks.contentType,
        asks.closed,
        asks.ttl,
        asks.expiresAt,
        asks.maxMessages,
        asks.maxBytes,
        asks.maxAge,
        asks.shards,
        asks.forkedFrom,
        asks.forkOffset,
        asks.forkSubOffset,
      ],
      body: { isRequired: false, content: body },
      answers: {
        200: { says: "It was there.", headers: [...tail, says.shards] },
        201: { says: "It was created.", headers: [...tail, says.shards, says.location] },
      },
      refuses: [
        "bad-header",
        "bad-body",
        "bad-request",
        "reserved-name",
        "too-large",
        "stream-not-found",
        "stream-exists",
        "stream-sharded",
        "content-type-mismatch",
        "fork-source-gone",
      ],
    },
    "stream.append": appendDescription("Append messages"),
    "stream.read": {
      summary: "Read, or wait for, messages",
      says: "Without offset, from the earliest message kept. With live=sse the connection stays open and is ended after a while.",
      query: [queries.offset, queries.last, queries.since, queries.live, queries.format, queries.cursor],
      headers: [asks.ifNoneMatch],
      answers: {
        200: {
          says: "A page of messages, as large as the server makes them; or, with live=sse, events.",
          headers: [...page, says.encoding],
          content: { "application/json": jsonPage, "text/event-stream": bytes, "*/*": bytes },
        },
        204: { says: "Nothing came in time, with live=long-poll.", headers: page },
        304: { says: "The client has it already.", headers: page },
      },
      refuses: [
        "bad-query",
        "bad-offset",
        "offset-ahead",
        "stream-not-found",
        "stream-gone",
        "offset-trimmed",
        "stream-sharded",
        "too-many-waiters",
        "draining",
        "data-damaged",
      ],
    },
    "stream.head": {
      summary: "Look at a stream without reading it",
      answers: {
        200: {
          says: "It is there.",
          headers: [...tail, says.ttl, says.expiresAt, says.maxMessages, says.maxBytes, says.maxAge, says.shards],
        },
      },
      refuses: ["stream-not-found", "stream-gone"],
    },
    "stream.delete": {
      summary: "Delete a stream",
      answers: { 204: { says: "It is gone." } },
      refuses: ["reserved-name", "stream-not-found", "stream-gone"],
    },
    "streams.list": {
      summary: "List the streams of a project",
      says: "In the order of their paths. A token that is confined to some streams is shown those only.",
      query: [queries.prefix, queries.filter, limitQuery(list), queries.after],
      answers: { 200: { says: "A page of streams.", content: { "application/json": streamList } } },
      refuses: ["bad-query"],
    },
  }) satisfies Readonly<Record<string, Description>>;
