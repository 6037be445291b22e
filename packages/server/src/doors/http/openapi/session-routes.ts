/** The routes of sessions, described for the OpenAPI document. Their bodies are the schemas that validate them. */
import type { RouteName } from "../../../core/action.ts";
import { sessionInfo, subscribe, subscribed, touched, unsubscribe } from "../../../sessions/bodies.ts";
import { says } from "./headers.ts";
import type { Description } from "./shape.ts";
import { appendDescription } from "./stream-routes.ts";

type SessionRoute = Extract<RouteName, "subscribe" | "unsubscribe" | "publish" | `session.${string}`>;

const tag = "Sessions";

const fanout = [says.fanoutCount, says.fanoutSuccesses, says.fanoutFailures, says.fanoutMode];

export const sessionRoutes: Readonly<Record<SessionRoute, Description>> = {
  subscribe: {
    tag,
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
    tag,
    summary: "End a subscription; what has been copied stays",
    body: { isRequired: true, content: { "application/json": unsubscribe } },
    answers: { 204: { says: "Not subscribed, now or before." } },
    refuses: ["bad-body", "too-large", "session-not-found", "overloaded"],
  },
  publish: { ...appendDescription("Append to a stream, and wait for the copies to its subscribers", fanout), tag },
  "session.get": {
    tag,
    summary: "A session and what it subscribes to",
    answers: { 200: { says: "The session.", content: { "application/json": sessionInfo } } },
    refuses: ["bad-request", "session-not-found"],
  },
  "session.touch": {
    tag,
    summary: "Keep a session alive",
    answers: { 200: { says: "It lives at least until then.", content: { "application/json": touched } } },
    refuses: ["bad-request", "session-not-found", "overloaded"],
  },
  "session.delete": {
    tag,
    summary: "End a session: its stream and every subscription are gone",
    answers: { 204: { says: "Gone." } },
    refuses: ["bad-request", "session-not-found", "overloaded"],
  },
};
