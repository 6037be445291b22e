/** The route of pull, described for the OpenAPI document. */
import { type Description, parameter, text } from "../core/describe.ts";

const token = parameter(
  "token",
  "The token of a session, where a browser cannot set a header. No other token is accepted in an address.",
  text,
);

export const describePull = {
  summary: "Publish to topics and pull from subscriptions",
  says: "A WebSocket with JSON text frames. Each frame of the client has a type and may have a ref; its answer is ok or error with that ref. Messages of open streams come as messages; bye comes before the server ends the connection. Each frame demands its own scope.",
  query: [token],
  answers: { 101: { says: "The connection is open." } },
  refuses: ["bad-request", "too-many-waiters", "draining", "overloaded"],
} satisfies Description;
