/** The routes of channels, described for the OpenAPI document. Their bodies are the schemas that validate them. */
import { BEGINNING, NOW } from "@sluice/protocol";
import { z } from "zod";
import { type Description, offset, parameter, text } from "../core/describe.ts";
import { afterQuery, limitQuery } from "../core/describe-listing.ts";
import { channelList, message, messages, published, stop } from "./bodies.ts";
import type { ChannelLimits } from "./defaults.ts";

/** Browsers send it when they reconnect. */
const lastEventId = parameter(
  "Last-Event-ID",
  "The id of the last event that the reader received; it starts after it.",
  offset,
);
const from = parameter(
  "from",
  `The reader starts after it: an offset from this server, ${BEGINNING} or ${NOW}. Last-Event-ID takes precedence.`,
  offset,
);
const wait = parameter("wait", "Whether to wait for a channel that has not started.", {
  type: "string",
  enum: ["true", "false"],
  default: "false",
});

const only = parameter("only", "Which events the reader gets: `stop` leaves out the messages.", {
  type: "string",
  enum: ["stop"],
});

export const describeChannels = (limits: ChannelLimits) =>
  ({
    "channel.publish": {
      summary: "Publish to a channel: one message, or several in one commit",
      says:
        `START first, then DELTA and ERROR, END last. At most ${limits.bodyBytes} bytes, and ${limits.rate} requests in ` +
        `${limits.windowMs} ms, unless the project or the channel has other limits.`,
      body: { isRequired: true, content: { "application/json": z.union([message, messages]) } },
      answers: { 202: { says: "The messages are durable.", content: { "application/json": published } } },
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
    "channels.list": {
      summary: "List the channels of a project",
      says: "Channels come in the order of their ids. A token that is confined lists only what it may see.",
      query: [limitQuery, afterQuery],
      answers: { 200: { says: "A page of channels.", content: { "application/json": channelList } } },
      refuses: ["bad-query"],
    },
    "channel.stop": {
      summary: "Ask the publisher of a channel to stop",
      says: "The request is durable. Every later publish answer carries `stop`, and every follower of the events gets a `stop` event. The publisher ends the channel with END. A repeated request changes nothing.",
      body: { isRequired: false, content: { "application/json": stop } },
      answers: { 202: { says: "The request is durable." } },
      refuses: ["bad-body", "too-large", "channel-not-found", "channel-ended", "overloaded"],
    },
    "channel.events": {
      summary: "Follow a channel",
      says: "Server-sent events: a `stream` event for each message, with its offset as id. A `gap` event precedes messages if earlier ones were trimmed. A `stop` event tells that the publisher is asked to stop. The response ends after END.",
      query: [from, wait, only],
      headers: [lastEventId],
      answers: {
        200: { says: "The events.", content: { "text/event-stream": text } },
        204: { says: "The channel has ended, and no message follows the given offset." },
      },
      refuses: [
        "bad-offset",
        "bad-query",
        "channel-not-found",
        "offset-ahead",
        "project-limit",
        "too-many-waiters",
        "draining",
        "overloaded",
      ],
    },
  }) satisfies Readonly<Record<string, Description>>;
