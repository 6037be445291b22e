/** The routes of sessions, described for the OpenAPI document. Their bodies are the schemas that validate them. */
import { header } from "@sluice/protocol";
import { count, type Description, parameter } from "../core/describe.ts";
import { appendDescription } from "../streams/describe.ts";
import { sessionInfo, subscribe, subscribed, touched, unsubscribe } from "./bodies.ts";

const fanout = [
  parameter(header.fanoutCount, "How many sessions subscribe to the stream.", count()),
  parameter(header.fanoutSuccesses, "How many have their copy already.", count()),
  parameter(header.fanoutFailures, "How many could not be copied to yet; they are tried again.", count()),
  parameter(header.fanoutMode, "inline: the answer waited for the copies. Otherwise they follow.", {
    type: "string",
    enum: ["inline", "queued", "circuit-open", "skipped"],
  }),
];

export const describeSessions = {
  subscribe: {
    summary: "Subscribe a session to a stream; makes the session when there is none",
    says: "From now on every message of the stream is copied into the session's own stream, in order and once.",
    body: { isRequired: true, content: { "application/json": subscribe } },
    answers: { 200: { says: "Subscribed, now or before.", content: { "application/json": subscribed } } },
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
    summary: "End a subscription; what has been copied stays",
    body: { isRequired: true, content: { "application/json": unsubscribe } },
    answers: { 204: { says: "Not subscribed, now or before." } },
    refuses: ["bad-body", "too-large", "session-not-found", "overloaded"],
  },
  publish: appendDescription("Append to a stream, and wait for the copies to its subscribers", fanout),
  "session.get": {
    summary: "A session and what it subscribes to",
    answers: { 200: { says: "The session.", content: { "application/json": sessionInfo } } },
    refuses: ["bad-request", "session-not-found"],
  },
  "session.touch": {
    summary: "Keep a session alive",
    answers: { 200: { says: "It lives at least until then.", content: { "application/json": touched } } },
    refuses: ["bad-request", "session-not-found", "overloaded"],
  },
  "session.delete": {
    summary: "End a session: its stream and every subscription are gone",
    answers: { 204: { says: "Gone." } },
    refuses: ["bad-request", "session-not-found", "overloaded"],
  },
} satisfies Readonly<Record<string, Description>>;
