/**
 * The JSON bodies of the wake routes. The same schemas validate requests and appear in the OpenAPI document. A schema
 * states the shape, type and size of each field; parse.ts checks what a name may contain.
 */
import { z } from "zod";
import { isLonger, isWellFormed } from "../core/bytes.ts";
import type { WakeLimits } from "./defaults.ts";

export const MAX_NAME_BYTES = 256;
const MAX_DESCRIPTION_BYTES = 1_024;

const STRING = { error: "must be a string" };
const OBJECT = { error: "must be a JSON object" };
const OFFSET = { error: "must be an offset" };
const WHOLE = { error: "must be a whole number" };
const DESCRIPTION = { error: `must be a string of at most ${MAX_DESCRIPTION_BYTES} bytes` };

/** Every text is stored and sent as UTF-8, so it must come back as it was sent. */
function text(error = STRING) {
  return z.string(error).refine(isWellFormed, { error: "must be valid UTF-8; it contains a lone surrogate" });
}

const path = text().describe("A stream's path within the project. A leading slash is ignored.");
const webhook = z.strictObject(
  {
    url: text()
      .min(1, STRING)
      .describe(
        "https to a public address. The server resolves the name at every delivery and refuses other addresses. Plain http to " +
          "localhost is allowed where webhook.allowLoopback is set, as it is by default on a loopback listener without keys. " +
          "Private networks are allowed where webhook.allowPrivate is set. Redirects are not followed.",
      ),
  },
  OBJECT,
);
const word = {
  wake_id: text().max(MAX_NAME_BYTES, STRING),
  generation: z.int(WHOLE),
};
const oneAck = z.strictObject(
  {
    stream: path.optional(),
    path: text().describe("Another name for stream. Send one of the two.").optional(),
    offset: text(OFFSET).max(MAX_NAME_BYTES, OFFSET),
  },
  OBJECT,
);

export type WakeBodies = ReturnType<typeof makeBodies>;
/** The limits that the schemas state. */
type BodyLimits = Pick<WakeLimits, "bodyBytes" | "items" | "leaseMs" | "minLeaseMs" | "maxLeaseMs">;

let latest: { readonly limits: BodyLimits; readonly bodies: WakeBodies } | undefined;

/** The schemas for these limits. The latest are kept, because building them takes milliseconds, longer than the rest of an app. */
export function wakeBodies({ bodyBytes, items, leaseMs, minLeaseMs, maxLeaseMs }: WakeLimits): WakeBodies {
  const limits: BodyLimits = { bodyBytes, items, leaseMs, minLeaseMs, maxLeaseMs };
  if (latest === undefined || !areSame(latest.limits, limits)) latest = { limits, bodies: makeBodies(limits) };
  return latest.bodies;
}

function areSame(one: BodyLimits, other: BodyLimits): boolean {
  return (Object.keys(one) as (keyof BodyLimits)[]).every((name) => one[name] === other[name]);
}

function makeBodies({ bodyBytes, items, leaseMs, minLeaseMs, maxLeaseMs }: BodyLimits) {
  const few = { error: `must have at most ${items} entries` };
  const paths = z.array(path, { error: "must be an array of paths" }).max(items, few);
  const acks = z.array(oneAck, { error: "must be an array" }).max(items, few);
  const done = z.boolean({ error: "must be true or false" }).describe("Whether the worker has finished the wake.");
  const lease = { error: `must be a whole number from ${minLeaseMs} to ${maxLeaseMs}` };
  return {
    bodyBytes,
    subscription: z.strictObject(
      {
        type: z.enum(["webhook", "pull-wake"], { error: 'must be "webhook" or "pull-wake"' }),
        pattern: text()
          .describe(
            "A path pattern: * matches one level, ** any number of levels. Either pattern or streams is required.",
          )
          .optional(),
        streams: paths.optional(),
        webhook: webhook.describe("For webhook subscriptions.").optional(),
        wake_stream: text()
          .describe("For pull-wake subscriptions: the stream that wake events are appended to.")
          .optional(),
        lease_ttl_ms: z.int(lease).min(minLeaseMs, lease).max(maxLeaseMs, lease).default(leaseMs),
        description: text(DESCRIPTION)
          .max(MAX_DESCRIPTION_BYTES, DESCRIPTION)
          .refine((said) => !isLonger(said, MAX_DESCRIPTION_BYTES), DESCRIPTION)
          .optional(),
      },
      OBJECT,
    ),
    addedStreams: z.strictObject({ streams: paths }, OBJECT),
    worker: z.strictObject(
      { worker: text().describe(`The name of the worker that claims, 1 to ${MAX_NAME_BYTES} bytes.`) },
      OBJECT,
    ),
    ack: z.strictObject({ ...word, acks: acks.default([]), done: done.default(false) }, OBJECT),
    release: z.strictObject(word, OBJECT),
  };
}
