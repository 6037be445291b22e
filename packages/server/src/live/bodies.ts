/**
 * The JSON bodies of the live routes. The same schemas validate requests (routes.ts) and appear in the OpenAPI document.
 */
import { z } from "zod";
import { sessionId } from "../core/session-id.ts";
import { MAX_PATH_BYTES } from "../streams/paths.ts";
import { LIVE_LIMITS } from "./limits.ts";

const OBJECT = { error: "must be a JSON object" };
const STREAM = { error: `must be a stream's path of 1 to ${MAX_PATH_BYTES} bytes` };
const OFFSET = { error: "must be an offset that this server has given out" };
const EPOCH = { error: "must be a whole number, as the subscription was answered" };
const { heartbeatEntries: MAX_ENTRIES } = LIVE_LIMITS;
const ENTRIES = { error: `must be an array of at most ${MAX_ENTRIES} entries` };

const streamId = z.string(STREAM).min(1, STREAM).max(MAX_PATH_BYTES, STREAM);

export const mint = z.strictObject({ sessionId: sessionId.optional() }, OBJECT);
export const subscription = z.strictObject({ sessionId, streamId }, OBJECT);

const offsets = z
  .array(
    z.strictObject(
      {
        streamId,
        lastOffset: z.string(OFFSET).describe("The offset of the last message that the client has processed."),
        epoch: z
          .int(EPOCH)
          .min(0, EPOCH)
          .describe("The epoch of the subscription that is meant; by default the present one.")
          .optional(),
      },
      OBJECT,
    ),
    ENTRIES,
  )
  .max(MAX_ENTRIES, ENTRIES);

export const heartbeat = z.strictObject({ sessionId, offsets }, OBJECT);

/** The same bodies over a WebSocket, whose session is known. */
export const subscriptionFrame = z.strictObject({ sessionId: sessionId.optional(), streamId }, OBJECT);
export const heartbeatFrame = z.strictObject({ sessionId: sessionId.optional(), offsets }, OBJECT);

export const minted = z.object({
  sessionId: z.string(),
  token: z.string().describe("For ?token=, where a browser cannot set headers. It lives ten minutes at most."),
  expiresAt: z.number().describe("When the session ends unless it is used before. Epoch ms."),
});

export const subscribed = z.object({
  streamId: z.string(),
  epoch: z.int().describe("Rises with every new subscription; a heartbeat may name it."),
  offset: z.string().describe("The session's pointer: for a new subscription the end of the stream at that moment."),
});

export const beaten = z.object({ expiresAt: z.number().describe("Epoch ms.") });

export const pointers = z.array(
  z.object({
    streamId: z.string(),
    lastOffset: z.string().describe("The last offset that the client has said it processed."),
    epoch: z.int(),
  }),
);
