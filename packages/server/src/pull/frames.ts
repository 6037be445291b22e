/**
 * The frames of a pull connection: what clients send, checked, and what they get, as bytes. `connection.ts` uses it, and the route
 * that publishes over HTTP.
 *
 * Invariants: a frame of the server is a WebSocket text frame with one JSON object. The data of a message is base64 in both
 * directions, whatever the content type of its topic.
 */
import { z } from "zod";
import { base64, utf8 } from "../core/bytes.ts";
import { textFrame } from "../core/socket.ts";
import type { Delivery, NewMessage } from "./contract.ts";

const OBJECT = { error: "must be a JSON object" };
const TEXT = { error: "must be a string" };
const NAME = { error: "must be a string of at least one character" };
const COUNT = { error: "must be a whole number from 0 on" };
const FLAG = { error: "must be true or false" };
const DATA = { error: "must be base64" };
const LIST = { error: "must be an array" };

const name = z.string(NAME).min(1, NAME);
const count = z.int(COUNT).min(0, COUNT);
const flag = z.boolean(FLAG);
const labels = z.record(z.string(TEXT), z.string(TEXT), OBJECT).optional();
const ackIds = z.array(z.string(TEXT), LIST).max(10_000, LIST);
const page = { after: z.string(TEXT).optional(), limit: count.optional() };

const message = z
  .strictObject(
    {
      data: z.base64(DATA).optional(),
      attributes: z.record(z.string(TEXT), z.string(TEXT), OBJECT).optional(),
      orderingKey: z.string(TEXT).optional(),
      id: z.string(TEXT).optional(),
      deliverAtMs: count.optional(),
    },
    OBJECT,
  )
  .transform(({ data = "", ...rest }): NewMessage => ({ data: bytesOf(data), ...rest }));

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

const changeable = {
  ackDeadlineMs: count.optional(),
  isExactlyOnce: flag.optional(),
  retryPolicy: z.strictObject({ minBackoffMs: count, maxBackoffMs: count }, OBJECT).optional(),
  deadLetter: z.strictObject({ topic: name, maxAttempts: count }, OBJECT).optional(),
  retentionMs: count.optional(),
  retainsAcked: flag.optional(),
  deduplicates: flag.optional(),
  isPaused: flag.optional(),
  expiresAfterMs: count.optional(),
  labels,
};
const flow = { maxMessages: count.optional(), maxBytes: count.optional(), allowsExcess: flag.optional() };
const from = z.union([z.enum(["latest", "earliest"]), count], {
  error: "must be latest, earliest or a time in epoch ms",
});

const ref = z.union([z.string(TEXT), z.number()], { error: "must be a string or a number" }).optional();

const framed = <S extends z.ZodRawShape>(shape: S) => z.strictObject({ ref, ...shape }, OBJECT);

const messages = z.array(message, LIST).min(1, LIST).max(1_000, LIST);

/** The body of a publish over HTTP, and its answer. */
export const publishBody = z.strictObject({ messages }, OBJECT);
export const published = z.strictObject({ messageIds: z.array(z.string()) });

/** A look at a subscription over HTTP. */
export const subscriptionInfo = z.object({
  name: z.string(),
  topic: z.string(),
  createdAt: z.int().describe("Epoch ms, as all times."),
  isTopicDeleted: z.boolean(),
  isDetached: z.boolean(),
  isOrdered: z.boolean(),
  filter: z.string().optional(),
  ...changeable,
  opaque: z.record(z.string(), z.unknown()).describe("Settings that the gRPC door keeps for its clients.").optional(),
  lag: z.int().describe("Messages that are published and not acknowledged."),
  pending: z
    .int()
    .nullable()
    .describe("Messages that are delivered and not acknowledged; null if the node that serves them does not answer."),
  oldestUnackedMs: z.int().nullable().describe("The age of the oldest message that is not acknowledged."),
});

export const FRAMES = {
  ping: framed({}),
  createTopic: framed({ topic: name, labels, retentionMs: count.optional() }),
  topic: framed({ topic: name }),
  topics: framed(page),
  deleteTopic: framed({ topic: name }),
  publish: framed({ topic: name, messages }),
  create: framed({
    subscription: name,
    topic: name,
    from: from.optional(),
    filter: z.string(TEXT).optional(),
    isOrdered: flag.optional(),
    ...changeable,
  }),
  get: framed({ subscription: name }),
  list: framed({ topic: name.optional(), ...page }),
  update: framed({ subscription: name, ...changeable }),
  delete: framed({ subscription: name }),
  detach: framed({ subscription: name }),
  seek: framed({ subscription: name, timeMs: count.optional(), snapshot: name.optional() }),
  redrive: framed({ subscription: name }),
  createSnapshot: framed({ snapshot: name, subscription: name, labels }),
  snapshots: framed({ topic: name.optional(), ...page }),
  deleteSnapshot: framed({ snapshot: name }),
  pull: framed({ subscription: name, maxMessages: count, maxBytes: count.optional(), waitMs: count.optional() }),
  open: framed({
    stream: name,
    subscription: name,
    ackDeadlineMs: count.optional(),
    isSequential: flag.optional(),
    shareOf: z.string(TEXT).optional(),
    ...flow,
  }),
  pause: framed({ stream: name }),
  resume: framed({ stream: name }),
  limits: framed({ stream: name, ackDeadlineMs: count.optional(), ...flow }),
  close: framed({ stream: name }),
  ack: framed({ subscription: name, ackIds }),
  nack: framed({ subscription: name, ackIds, delayMs: count.optional() }),
  extend: framed({ subscription: name, ackIds, deadlineMs: count }),
} as const;

export type Frame<T extends keyof typeof FRAMES = keyof typeof FRAMES> = {
  [K in T]: { readonly type: K } & z.output<(typeof FRAMES)[K]>;
}[T];

export type Ref = string | number | undefined;

export type ServerFrame =
  | { readonly type: "ok"; readonly ref: Ref; readonly [member: string]: unknown }
  | { readonly type: "error"; readonly ref: Ref; readonly code: string; readonly detail: string }
  | { readonly type: "messages"; readonly stream: string; readonly messages: readonly object[] }
  | { readonly type: "notice"; readonly stream: string; readonly what: string }
  | { readonly type: "ended"; readonly stream: string; readonly why: string };

export function frameOf(frame: ServerFrame): Uint8Array {
  return textFrame([utf8(JSON.stringify(frame))]);
}

export function deliveredOf(delivery: Delivery): object {
  const { ackId, messageId, data, attributes, orderingKey, publishedAt, attempt, deadlineAt } = delivery;
  return { ackId, messageId, data: base64(data), attributes, orderingKey, publishedAt, attempt, deadlineAt };
}
