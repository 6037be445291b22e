/**
 * The JSON bodies of the channel routes. The same schemas validate requests (parse.ts) and appear in the OpenAPI
 * document.
 */
import { z } from "zod";
import { isLonger } from "../core/bytes.ts";

export const MAX_MESSAGE_ID_BYTES = 256;

const OBJECT = { error: "must be a JSON object" };
const ID = { error: `must be a string of 1 to ${MAX_MESSAGE_ID_BYTES} bytes` };
const SEQUENCE = { error: "must be a whole number from 0 to 2^53-1" };

export const message = z.strictObject(
  {
    messageId: z
      .string(ID)
      .min(1, ID)
      .max(MAX_MESSAGE_ID_BYTES, ID)
      .refine((id) => !isLonger(id, MAX_MESSAGE_ID_BYTES), ID)
      .describe("A message whose id the channel knows is not appended again.")
      .optional(),
    phase: z.enum(["START", "DELTA", "END", "ERROR"], { error: "must be START, DELTA, END or ERROR" }),
    sequence: z
      .int(SEQUENCE)
      .min(0, SEQUENCE)
      .describe("One more than the previous message; any number at START. A repeated number appends nothing."),
    payload: z.unknown().optional().describe("Any JSON value; null by default."),
  },
  OBJECT,
);

export const messages = z.strictObject(
  {
    messages: z
      .array(message, { error: "must be an array of messages" })
      .min(1, { error: "must have at least one message" }),
  },
  OBJECT,
);

export const MAX_REASON_BYTES = 1_024;
const REASON = { error: `must be a string of at most ${MAX_REASON_BYTES} bytes` };

export const stop = z.strictObject(
  {
    reason: z
      .string(REASON)
      .max(MAX_REASON_BYTES, REASON)
      .refine((text) => !isLonger(text, MAX_REASON_BYTES), REASON)
      .describe("Why, for the publisher and for readers.")
      .optional(),
  },
  OBJECT,
);

export const published = z.object({
  offset: z.string().describe("The offset of the message; of the last one if there were several."),
  sequence: z.int(),
  gap: z
    .object({ expected: z.int() })
    .describe("The publisher skipped the sequences from `expected` up to the message.")
    .optional(),
  stop: z
    .object({ reason: z.string().optional() })
    .describe("The publisher is asked to stop: it should end the channel.")
    .optional(),
});

export const channelList = z.object({
  channels: z.array(
    z.object({
      channelId: z.string(),
      phase: z.enum(["START", "DELTA", "END", "ERROR"]).describe("Of the newest message."),
      sequence: z.int(),
      messages: z.int().describe("Messages that are kept."),
      lastPublishAt: z.number(),
    }),
  ),
  next: z.string().optional().describe("Pass it as `after` for the next page."),
});

/** The data of a `stream` event. */
export const event = z.object({
  messageId: z.string(),
  channelId: z.string(),
  phase: z.enum(["START", "DELTA", "END", "ERROR"]),
  sequence: z.int(),
  gap: z.object({ expected: z.int() }).optional(),
  payload: z.unknown(),
});
