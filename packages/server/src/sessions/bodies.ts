/**
 * The JSON bodies of the session routes. The same schemas validate requests (routes.ts) and appear in the OpenAPI
 * document.
 */
import { z } from "zod";
import { sessionId } from "../core/session-id.ts";
import { MAX_PATH_BYTES } from "../streams/paths.ts";

const OBJECT = { error: "must be a JSON object" };
export const STREAM_ID = /^[A-Za-z0-9_.:/-]+$/;
const STREAM = { error: `must be a stream's path of letters, digits, _ . : / and -, in 1 to ${MAX_PATH_BYTES} bytes` };
const OFFSET = { error: "must be an offset, -1 or now" };

const streamId = z.string(STREAM).max(MAX_PATH_BYTES, STREAM).regex(STREAM_ID, STREAM);

export const subscribe = z.strictObject(
  {
    sessionId,
    streamId,
    format: z
      .enum(["raw", "envelope"], { error: "must be raw or envelope" })
      .describe(
        "raw: the payload as in the stream, whose content type the session takes. envelope: JSON that names the source.",
      )
      .default("raw"),
    from: z
      .string(OFFSET)
      .describe("The subscription starts after this offset; -1 means the earliest message kept. The default is now.")
      .optional(),
  },
  OBJECT,
);

export const unsubscribe = z.strictObject({ sessionId, streamId }, OBJECT);
export { sessionId as session };

export const subscribed = z.object({
  sessionId: z.string(),
  streamId: z.string(),
  sessionStreamPath: z.string(),
  expiresAt: z.number().describe("Epoch ms."),
  isNewSession: z.boolean(),
});

export const sessionInfo = z.object({
  sessionId: z.string(),
  sessionStreamPath: z.string(),
  expiresAt: z.number(),
  subscriptions: z.array(
    z.object({
      streamId: z.string(),
      subscribedAt: z.number(),
      format: z.enum(["raw", "envelope"]),
      missed: z
        .object({ after: z.string(), through: z.string() })
        .describe("Retention trimmed messages between these offsets of the stream before they could be copied.")
        .optional(),
    }),
  ),
});

export const touched = z.object({ sessionId: z.string(), expiresAt: z.number() });

export const sessionList = z.object({
  sessions: z.array(
    z.object({
      sessionId: z.string(),
      expiresAt: z.number(),
      subscriptions: z.int().describe("How many streams are copied into its inbox."),
    }),
  ),
  next: z.string().optional().describe("Pass it as `after` for the next page."),
});
