/** The routes of Live, described for the OpenAPI document. Their bodies are the schemas that validate them. */
import { type Description, parameter, text } from "../core/describe.ts";
import {
  beaten,
  endedSubscription,
  heartbeat,
  members,
  mint,
  minted,
  newSubscription,
  pointers,
  subscribed,
} from "./bodies.ts";

const token = parameter(
  "token",
  "The token of the session, where a browser cannot set a header. No other token is accepted in an address.",
  text,
);

export const describeLive = {
  mint: {
    summary: "Create a session for a tab, or renew the token of one",
    says: "The id is made by the server. With a sessionId, its owner gets a new token, and an open connection may stay as long as the token lives.",
    body: { isRequired: false, content: { "application/json": mint } },
    answers: {
      200: { says: "The token was renewed.", content: { "application/json": minted } },
      201: { says: "The session was created.", content: { "application/json": minted } },
    },
    refuses: ["bad-body", "too-large", "session-not-found", "overloaded"],
  },
  subscribe: {
    summary: "Subscribe a session to a stream, for live push",
    says: "Nothing is copied: an open connection gets the messages, and a client that was away reads the stream from its pointer. A repeat changes neither pointer nor epoch.",
    body: { isRequired: true, content: { "application/json": newSubscription } },
    answers: { 200: { says: "The session is subscribed.", content: { "application/json": subscribed } } },
    refuses: [
      "bad-body",
      "too-large",
      "bad-path",
      "reserved-name",
      "session-not-found",
      "stream-not-found",
      "stream-gone",
      "stream-sharded",
      "too-many-subscriptions",
      "overloaded",
    ],
  },
  unsubscribe: {
    summary: "End a subscription for live push",
    body: { isRequired: true, content: { "application/json": endedSubscription } },
    answers: { 204: { says: "The session is not subscribed." } },
    refuses: ["bad-body", "too-large", "session-not-found", "overloaded"],
  },
  heartbeat: {
    summary: "Store what a client has processed, and keep its session alive",
    says: "Entries that are behind the pointer, of another epoch, or about streams that are gone or not subscribed are ignored. One that is ahead of its stream refuses the whole request.",
    body: { isRequired: true, content: { "application/json": heartbeat } },
    answers: { 200: { says: "The offsets are stored.", content: { "application/json": beaten } } },
    refuses: ["bad-body", "too-large", "session-not-found", "offset-ahead", "overloaded"],
  },
  offsets: {
    summary: "List the pointers of a session",
    answers: { 200: { says: "Where the client reads on, by stream.", content: { "application/json": pointers } } },
    refuses: ["bad-request", "session-not-found", "overloaded"],
  },
  presence: {
    summary: "List who is live on a stream",
    says: "The sessions with an open connection that subscribed with presence: true.",
    answers: { 200: { says: "The members.", content: { "application/json": members } } },
    refuses: ["bad-path", "stream-not-found", "stream-gone"],
  },
  connect: {
    summary: "Open the live connection of a session",
    says: "Server-sent events without a name, one JSON object each: hello first, then data, notify, closed, gone and idle, and bye before the server ends the connection. The newest connection of a session displaces the others.",
    query: [token],
    answers: {
      101: { says: "The same events as text frames, if the request asks for an upgrade to a WebSocket." },
      200: { says: "The events.", content: { "text/event-stream": text } },
    },
    refuses: ["bad-request", "session-not-found", "too-many-waiters", "draining", "overloaded"],
  },
} satisfies Readonly<Record<string, Description>>;
