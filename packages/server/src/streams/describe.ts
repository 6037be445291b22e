/** The routes of streams, described for the OpenAPI document. `feature.ts` attaches each description to its route. */
import { z } from "zod";
import { bytes, type Description, type Parameter } from "../core/describe.ts";
import type { ListLimits } from "./defaults.ts";
import { asks, limitQuery, queries, says } from "./describe-headers.ts";

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
  .describe("The messages with their offsets and metadata, with format=envelope.");

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
      shards: z.number().describe("The number of shards; only of a sharded topic.").optional(),
    }),
  ),
  next: z
    .string()
    .describe("Send it as after to get the next page, also if this page is short or empty. Absent on the last page.")
    .optional(),
});

/** Publishing is an append whose response has further headers. */
export function appendDescription(summary: string, more: readonly Parameter[] = []): Description {
  return {
    summary,
    says: "The server answers when the messages are durable. Each element of a JSON array is a message; any other body is one message.",
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
      200: { says: "The producer's messages were appended.", headers: [...appendTail, ...more] },
      204: {
        says: "The messages were appended, or the request repeats a producer's append and appended nothing.",
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
      summary: "Create a stream, or confirm that it exists",
      says: "The body becomes the first messages. If the stream exists with the same configuration, the server confirms it.",
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
        200: { says: "The stream exists with this configuration.", headers: [...tail, says.shards] },
        201: { says: "The stream was created.", headers: [...tail, says.shards, says.location] },
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
      summary: "Read messages, or wait for them",
      says: "Without offset, the read starts at the earliest message kept. With live=sse the server keeps the connection open for a limited time.",
      query: [
        queries.offset,
        queries.last,
        queries.since,
        queries.live,
        queries.format,
        queries.cursor,
        queries.session,
      ],
      headers: [asks.ifNoneMatch],
      answers: {
        200: {
          says: "A page of messages, up to the server's page size; with live=sse, an event stream.",
          headers: [...page, says.encoding],
          content: { "application/json": jsonPage, "text/event-stream": bytes, "*/*": bytes },
        },
        204: { says: "With live=long-poll: no message arrived in time.", headers: page },
        304: { says: "The client already holds this page.", headers: page },
      },
      refuses: [
        "bad-query",
        "bad-offset",
        "offset-ahead",
        "stream-not-found",
        "stream-gone",
        "offset-trimmed",
        "stream-sharded",
        "project-limit",
        "too-many-waiters",
        "draining",
        "data-damaged",
      ],
    },
    "stream.head": {
      summary: "Look at a stream without reading it",
      answers: {
        200: {
          says: "The stream exists.",
          headers: [...tail, says.ttl, says.expiresAt, says.maxMessages, says.maxBytes, says.maxAge, says.shards],
        },
      },
      refuses: ["stream-not-found", "stream-gone"],
    },
    "stream.delete": {
      summary: "Delete a stream",
      answers: { 204: { says: "The stream was deleted." } },
      refuses: ["reserved-name", "stream-not-found", "stream-gone"],
    },
    "streams.list": {
      summary: "List the streams of a project",
      says: "Streams come in the order of their paths. A token that is confined to some streams lists only those.",
      query: [queries.prefix, queries.filter, limitQuery(list), queries.after],
      answers: { 200: { says: "A page of streams.", content: { "application/json": streamList } } },
      refuses: ["bad-query"],
    },
  }) satisfies Readonly<Record<string, Description>>;
