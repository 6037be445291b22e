/** The routes of wake subscriptions, described for the OpenAPI document. Their bodies are the schemas that validate them. */
import type { ErrorCode } from "@sluice/protocol";
import { z } from "zod";
import type { Description } from "../core/describe.ts";
import type { WakeBodies } from "./bodies.ts";

const json = (schema: z.ZodType) => ({ "application/json": schema });
const required = (schema: z.ZodType) => ({ isRequired: true, content: json(schema) });

export const subscription = z.object({
  id: z.string(),
  subscription_id: z.string(),
  type: z.enum(["webhook", "pull-wake"]),
  pattern: z.string().optional(),
  streams: z.array(z.object({ path: z.string(), link_type: z.string(), acked_offset: z.string() })),
  webhook: z
    .object({
      url: z.string(),
      signing: z.object({ alg: z.literal("ed25519"), kid: z.string(), jwks_url: z.string() }),
    })
    .optional(),
  wake_stream: z.string().optional(),
  lease_ttl_ms: z.number(),
  created_at: z.string(),
  status: z.string(),
  retry_count: z.number(),
  next_attempt_at: z.string().optional(),
  description: z.string().optional(),
});

export const claimed = z.object({
  wake_id: z.string(),
  generation: z.number(),
  token: z.string().describe("Shown as Authorization: Bearer when acknowledging and releasing."),
  streams: z.array(
    z.object({
      path: z.string(),
      link_type: z.string(),
      acked_offset: z.string(),
      tail_offset: z.string(),
      has_pending: z.boolean(),
    }),
  ),
  lease_ttl_ms: z.number(),
});

const acked = z.object({ ok: z.literal(true), next_wake: z.boolean() });
const keySet = z.object({ keys: z.array(z.record(z.string(), z.unknown())) });

const UNPROVEN: readonly ErrorCode[] = [
  "bad-body",
  "too-large",
  "subscription-not-found",
  "token-invalid",
  "token-expired",
  "fenced",
];

export const describeWakes = (bodies: WakeBodies) =>
  ({
    "ds.subscription.put": {
      summary: "Create a wake subscription, or confirm that it is there",
      body: required(bodies.subscription),
      answers: {
        200: { says: "It was there.", content: json(subscription) },
        201: { says: "It was created.", content: json(subscription) },
      },
      refuses: [
        "bad-body",
        "too-large",
        "webhook-url-rejected",
        "subscription-already-exists",
        "too-many-links",
        "overloaded",
      ],
    },
    "ds.subscription.get": {
      summary: "Look at a wake subscription",
      answers: { 200: { says: "What it is and how far it is.", content: json(subscription) } },
      refuses: ["subscription-not-found"],
    },
    "ds.subscription.delete": {
      summary: "Delete a wake subscription",
      answers: { 204: { says: "It is gone, or was never there." } },
      refuses: [],
    },
    "ds.subscription.streams.add": {
      summary: "Link streams to a wake subscription",
      body: required(bodies.addedStreams),
      answers: { 204: { says: "They are linked." } },
      refuses: ["bad-body", "too-large", "subscription-not-found", "too-many-links", "overloaded"],
    },
    "ds.subscription.streams.remove": {
      summary: "Unlink a stream from a wake subscription",
      answers: { 204: { says: "It is not linked by name any more." } },
      refuses: ["subscription-not-found", "overloaded"],
    },
    "ds.subscription.claim": {
      summary: "Claim the work of a pull-wake subscription",
      body: required(bodies.worker),
      answers: { 200: { says: "It is yours until the lease ends.", content: json(claimed) } },
      refuses: ["bad-body", "too-large", "subscription-not-found", "no-pending-work", "already-claimed", "overloaded"],
    },
    "ds.subscription.ack": {
      summary: "Acknowledge what was processed",
      says: "With the token that the claim gave.",
      body: required(bodies.ack),
      answers: { 200: { says: "It is stored.", content: json(acked) } },
      refuses: [...UNPROVEN, "invalid-offset"],
    },
    "ds.subscription.release": {
      summary: "Give a claim back",
      says: "With the token that the claim gave.",
      body: required(bodies.release),
      answers: { 204: { says: "Others may claim." } },
      refuses: UNPROVEN,
    },
    "ds.subscription.callback": {
      summary: "Call back from a webhook",
      says: "With the token that came with the webhook.",
      body: required(bodies.ack),
      answers: { 200: { says: "It is stored.", content: json(acked) } },
      refuses: [...UNPROVEN, "invalid-offset"],
    },
    "ds.keys": {
      summary: "The keys that verify webhooks",
      answers: { 200: { says: "A JSON Web Key Set.", content: { "application/jwk-set+json": keySet } } },
      refuses: [],
    },
  }) satisfies Readonly<Record<string, Description>>;
