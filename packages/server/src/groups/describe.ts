/** The routes of groups, described for the OpenAPI document. Their bodies are the schemas that validate them. */
import { count, type Description, parameter, text, upTo } from "../core/describe.ts";
import { choice, declaration, groupKey, info, listing, move, redriven } from "./bodies.ts";

const member = parameter(
  "member",
  "The name of the consumer across reconnects; by default one is made up. A member that returns gets its streams back if they are free.",
  upTo(256),
);
const token = parameter(
  "token",
  "The token of a session, where a browser cannot set a header. No other token is accepted in an address.",
  text,
);
const filter = parameter("filter", "The filter of the group, if several have this name.", text);
const mode = parameter("mode", "The mode of the group, if several have this name.", {
  type: "string",
  enum: ["share", "queue"],
});
const limit = parameter("limit", "How many groups the page may have.", count(1, 1_000));
const after = parameter("after", "The `next` of the page before.", text);

const FOUND = ["bad-request", "group-not-found", "group-ambiguous", "overloaded"] as const;

export const describeGroups = {
  consume: {
    summary: "Consume as a member of groups",
    says: "A WebSocket with JSON text frames. The client sends subscribe, ack, nack, extend and unsubscribe; the server sends subscribed, granted, message, acked, revoking, revoked, gap, unsubscribed and error, and bye before it ends the connection.",
    query: [member, token],
    answers: { 101: { says: "The connection is open." } },
    refuses: ["bad-request", "bad-query", "too-many-waiters", "draining", "overloaded"],
  },
  list: {
    summary: "List groups",
    query: [limit, after],
    answers: { 200: { says: "One page of groups.", content: { "application/json": listing } } },
    refuses: ["bad-query", "overloaded"],
  },
  get: {
    summary: "Look at a group: leader, members, and how far each stream is processed",
    says: "The node that is asked asks the node that leads the group. If that does not answer, `source` is `stored`: the progress is shown, and no members.",
    query: [filter, mode],
    answers: { 200: { says: "The group.", content: { "application/json": info } } },
    refuses: [...FOUND, "bad-query"],
  },
  put: {
    summary: "Declare a group before any consumer comes",
    says: "The group misses nothing that is published from now on. Without `from` it begins with the next message.",
    body: { isRequired: true, content: { "application/json": declaration } },
    answers: {
      200: { says: "The group exists.", content: { "application/json": groupKey } },
      201: { says: "The group was created.", content: { "application/json": groupKey } },
    },
    refuses: ["bad-body", "bad-request", "reserved-name", "too-large", "group-differs", "overloaded"],
  },
  seek: {
    summary: "Move a group",
    says: "What is in flight is fenced: it is delivered again, or passed over, as the new place says.",
    body: { isRequired: true, content: { "application/json": move } },
    answers: { 204: { says: "The group is moved." } },
    refuses: [...FOUND, "bad-body", "too-large"],
  },
  redrive: {
    summary: "Put dead letters back into their streams",
    says: "Each letter goes back once, to the end of the stream that it came from, and readers of that stream see it again. It stays in the dead-letter stream too.",
    body: { isRequired: true, content: { "application/json": choice } },
    answers: { 200: { says: "What was put back.", content: { "application/json": redriven } } },
    refuses: [...FOUND, "bad-body", "too-large"],
  },
  delete: {
    summary: "Delete a group and what it has processed",
    query: [filter, mode],
    answers: { 204: { says: "There is no such group any more." } },
    refuses: [...FOUND, "bad-query"],
  },
} satisfies Readonly<Record<string, Description>>;
