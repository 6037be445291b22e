/** The routes of pull, described for the OpenAPI document. */
import { type Description, parameter, text } from "../core/describe.ts";
import { publishBody, published, subscriptionInfo } from "./frames.ts";

const token = parameter(
  "token",
  "The token of a session, where a browser cannot set a header. No other token is accepted in an address.",
  text,
);

export const describePull = {
  connect: {
    summary: "Publish to topics and pull from subscriptions",
    says: "A WebSocket with JSON text frames. Each frame of the client has a type and may have a ref; its answer is ok or error with that ref. Messages of open streams come as messages; bye comes before the server ends the connection. Each frame demands its own scope.",
    query: [token],
    answers: { 101: { says: "The connection is open." } },
    refuses: ["bad-request", "too-many-waiters", "draining", "overloaded"],
  },
  info: {
    summary: "Look at a subscription: its settings, and how far it is behind",
    says: "The node that is asked asks the node that serves the subscription for the messages in flight. A message that the filter leaves out counts as lag until it is read.",
    answers: { 200: { says: "The subscription.", content: { "application/json": subscriptionInfo } } },
    refuses: ["bad-request", "subscription-not-found", "overloaded"],
  },
  publish: {
    summary: "Publish to a topic",
    says: "As the frame publish of the WebSocket, for messages that are too large for a frame. The data of a message is base64. The messages are stored in their order.",
    body: { isRequired: true, content: { "application/json": publishBody } },
    answers: { 200: { says: "All messages are durable.", content: { "application/json": published } } },
    refuses: [
      "bad-body",
      "bad-request",
      "too-large",
      "stream-not-found",
      "stream-closed",
      "reserved-name",
      "overloaded",
    ],
  },
} satisfies Readonly<Record<string, Description>>;
