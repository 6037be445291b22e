/**
 * The JSON bodies of the live routes. The same schemas validate requests (routes.ts) and appear in the OpenAPI document.
 */
import { z } from "zod";
import { isLonger } from "../core/bytes.ts";
import { sessionId } from "../core/session-id.ts";
import { MAX_PATH_BYTES } from "../streams/paths.ts";

const OBJECT = { error: "must be a JSON object" };
const STREAM = { error: `must be a stream's path of 1 to ${MAX_PATH_BYTES} bytes` };
const OFFSET = { error: "must be an offset that this server has given out" };
const EPOCH = { error: "must be a whole number, as the subscription was answered" };
const MAX_ENTRIES = 1_000;
const ENTRIES = { error: `must be an array of at most ${MAX_ENTRIES} entries` };

const epoch = z
  .int(EPOCH)
  .min(0, EPOCH)
  .describe("The epoch of the subscription that is meant; by default the present one.")
  .optional();
const streamId = z.string(STREAM).min(1, STREAM).max(MAX_PATH_BYTES, STREAM);

const MAX_STATE_BYTES = 1_024;
const STATE = { error: `must have at most ${MAX_STATE_BYTES} bytes as JSON` };
const presence = {
  presence: z
    .boolean({ error: "must be true or false" })
    .describe("Whether other members of the stream see the session, and the session sees them.")
    .optional(),
  state: z
    .unknown()
    .refine((state) => state === undefined || !isLonger(JSON.stringify(state), MAX_STATE_BYTES), STATE)
    .describe("A small JSON value that is shown with the session; only with presence.")
    .optional(),
};

export const mint = z.strictObject({ sessionId: sessionId.optional() }, OBJECT);
export const endedSubscription = z.strictObject({ sessionId, streamId, epoch }, OBJECT);
export const newSubscription = z.strictObject({ sessionId, streamId, ...presence }, OBJECT);

const offsets = z
  .array(
    z.strictObject(
      {
        streamId,
        lastOffset: z.string(OFFSET).describe("The offset of the last message that the client has processed."),
        epoch,
      },
      OBJECT,
    ),
    ENTRIES,
  )
  .max(MAX_ENTRIES, ENTRIES);

export const heartbeat = z.strictObject({ sessionId, offsets }, OBJECT);

/** The same bodies over a WebSocket, whose session is known. */
export const newSubscriptionFrame = z.strictObject({ sessionId: sessionId.optional(), streamId, ...presence }, OBJECT);
export const endedSubscriptionFrame = z.strictObject({ sessionId: sessionId.optional(), streamId, epoch }, OBJECT);
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

export const members = z.object({
  members: z.array(
    z.object({
      sessionId: z.string(),
      subject: z.string().describe("The owner of the session.").optional(),
      since: z.number().describe("Epoch ms."),
      state: z.unknown().optional(),
    }),
  ),
});
