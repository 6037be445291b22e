/** The routes of channels, described for the OpenAPI document. Their bodies are the schemas that validate them. */
import { z } from "zod";
import { message, messages, published } from "../../../channels/bodies.ts";
import type { ChannelLimits } from "../../../channels/limits.ts";
import type { RouteName } from "../../../core/action.ts";
import { lastEventId, queries } from "./headers.ts";
import { type Description, text } from "./shape.ts";

type ChannelRoute = Extract<RouteName, `channel.${string}`>;

const tag = "Channels";

export const channelRoutes = (limits: ChannelLimits): Readonly<Record<ChannelRoute, Description>> => ({
  "channel.publish": {
    tag,
    summary: "Publish to a channel: one message, or several that are taken together",
    says:
      `START first, then DELTA and ERROR, END last. At most ${limits.bodyBytes} bytes, and ${limits.rate} requests in ` +
      `${limits.windowMs} ms, unless the project or the channel has other limits.`,
    body: { isRequired: true, content: { "application/json": z.union([message, messages]) } },
    answers: { 202: { says: "It is stored.", content: { "application/json": published } } },
    refuses: [
      "bad-body",
      "too-large",
      "channel-not-started",
      "channel-started",
      "channel-ended",
      "channel-sequence",
      "rate-limited",
      "limiter-unavailable",
      "overloaded",
    ],
  },
  "channel.events": {
    tag,
    summary: "Follow a channel",
    says: "Server-sent events: `stream` for each message, with its offset as id; `gap` first where messages are gone. Ends after END.",
    query: [queries.from, queries.wait],
    headers: [lastEventId],
    answers: {
      200: { says: "The events.", content: { "text/event-stream": text } },
      204: { says: "The channel has ended, and nothing follows the offset given." },
    },
    refuses: [
      "bad-offset",
      "bad-query",
      "channel-not-found",
      "offset-ahead",
      "too-many-waiters",
      "draining",
      "overloaded",
    ],
  },
});
