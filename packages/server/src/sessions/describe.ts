/** The routes of sessions, described for the OpenAPI document. Their bodies are the schemas that validate them. */
import { header } from "@sluice/protocol";
import { count, type Description, parameter } from "../core/describe.ts";
import { afterQuery, limitQuery } from "../core/describe-listing.ts";
import { appendDescription } from "../streams/describe.ts";
import { sessionInfo, sessionList, subscribe, subscribed, touched, unsubscribe } from "./bodies.ts";

const fanout = [
  parameter(header.fanoutCount, "The number of sessions that subscribe to the stream.", count()),
  parameter(header.fanoutSuccesses, "The number of sessions that have their copy.", count()),
  parameter(header.fanoutFailures, "The number of sessions without a copy yet. The server retries them.", count()),
  parameter(
    header.fanoutMode,
    "inline: the response waited for the copies. In the other modes the copies follow later.",
    {
      type: "string",
      enum: ["inline", "queued", "circuit-open", "skipped"],
    },
  ),
];

export const describeSessions = {
  subscribe: {
    summary: "Subscribe a session to a stream; creates the session if it does not exist",
    says: "The server copies every later message of the stream into the session's own stream, in order and exactly once.",
    body: { isRequired: true, content: { "application/json": subscribe } },
    answers: { 200: { says: "The session is subscribed.", content: { "application/json": subscribed } } },
    refuses: [
      "bad-body",
      "too-large",
      "bad-path",
      "reserved-name",
      "stream-not-found",
      "stream-sharded",
      "content-type-mismatch",
      "subscription-differs",
      "too-many-subscriptions",
      "offset-trimmed",
      "offset-ahead",
      "history-lost",
      "overloaded",
    ],
  },
  unsubscribe: {
    summary: "End a subscription; the copies so far stay",
    body: { isRequired: true, content: { "application/json": unsubscribe } },
    answers: { 204: { says: "The session is not subscribed." } },
    refuses: ["bad-body", "too-large", "session-not-found", "overloaded"],
  },
  publish: appendDescription("Append to a stream, and wait for the copies to its subscribers", fanout),
  "sessions.list": {
    summary: "List the sessions of a project; for admins",
    says: "Sessions come in the order of their ids.",
    query: [limitQuery, afterQuery],
    answers: { 200: { says: "A page of sessions.", content: { "application/json": sessionList } } },
    refuses: ["bad-query"],
  },
  "session.get": {
    summary: "Get a session and its subscriptions",
    answers: { 200: { says: "The session.", content: { "application/json": sessionInfo } } },
    refuses: ["bad-request", "session-not-found"],
  },
  "session.touch": {
    summary: "Keep a session alive",
    answers: { 200: { says: "The session lives at least until expiresAt.", content: { "application/json": touched } } },
    refuses: ["bad-request", "session-not-found", "overloaded"],
  },
  "session.delete": {
    summary: "Delete a session, its stream and its subscriptions",
    answers: { 204: { says: "The session was deleted." } },
    refuses: ["bad-request", "session-not-found", "overloaded"],
  },
} satisfies Readonly<Record<string, Description>>;
