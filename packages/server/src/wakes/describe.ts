/**
 * The routes of wake subscriptions, described for the OpenAPI document. Their bodies are the schemas that validate
 * them.
 */
import type { ErrorCode } from "@sluice/protocol";
import { z } from "zod";
import type { Description } from "../core/describe.ts";
import { afterQuery, limitQuery } from "../core/describe-listing.ts";
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
  token: z.string().describe("Send it as Authorization: Bearer when acknowledging and releasing."),
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

const subscriptionList = z.object({ subscriptions: z.array(subscription), next: z.string().optional() });

export const describeWakes = (bodies: WakeBodies) =>
  ({
    "ds.subscription.put": {
      summary: "Create a wake subscription, or confirm that it exists",
      body: required(bodies.subscription),
      answers: {
        200: { says: "The subscription exists with this configuration.", content: json(subscription) },
        201: { says: "The subscription was created.", content: json(subscription) },
      },
      refuses: [
        "bad-body",
        "too-large",
        "webhook-url-rejected",
        "subscription-already-exists",
        "too-many-links",
        "project-limit",
        "overloaded",
      ],
    },
    "ds.subscriptions.list": {
      summary: "List the wake subscriptions of a project",
      says: "Subscriptions come in the order of their ids. A token that is confined lists only those within its reach.",
      query: [limitQuery, afterQuery],
      answers: { 200: { says: "A page of subscriptions.", content: json(subscriptionList) } },
      refuses: ["bad-query"],
    },
    "ds.subscription.get": {
      summary: "Get a wake subscription",
      answers: { 200: { says: "The subscription and its acknowledged offsets.", content: json(subscription) } },
      refuses: ["subscription-not-found"],
    },
    "ds.subscription.delete": {
      summary: "Delete a wake subscription",
      answers: { 204: { says: "The subscription does not exist any more, or never did." } },
      refuses: [],
    },
    "ds.subscription.streams.add": {
      summary: "Link streams to a wake subscription",
      body: required(bodies.addedStreams),
      answers: { 204: { says: "The streams are linked." } },
      refuses: ["bad-body", "too-large", "subscription-not-found", "too-many-links", "project-limit", "overloaded"],
    },
    "ds.subscription.streams.remove": {
      summary: "Unlink a stream from a wake subscription",
      answers: { 204: { says: "The stream is not linked by name any more." } },
      refuses: ["subscription-not-found", "overloaded"],
    },
    "ds.subscription.claim": {
      summary: "Claim the work of a pull-wake subscription",
      body: required(bodies.worker),
      answers: { 200: { says: "The worker holds the wake until the lease ends.", content: json(claimed) } },
      refuses: ["bad-body", "too-large", "subscription-not-found", "no-pending-work", "already-claimed", "overloaded"],
    },
    "ds.subscription.ack": {
      summary: "Acknowledge processed messages",
      says: "Needs the token from the claim.",
      body: required(bodies.ack),
      answers: { 200: { says: "The acknowledgement is durable.", content: json(acked) } },
      refuses: [...UNPROVEN, "invalid-offset"],
    },
    "ds.subscription.release": {
      summary: "Release a claim",
      says: "Needs the token from the claim.",
      body: required(bodies.release),
      answers: { 204: { says: "The wake is released; any worker may claim the next one." } },
      refuses: UNPROVEN,
    },
    "ds.subscription.callback": {
      summary: "Acknowledge from a webhook's receiver",
      says: "Needs the token from the webhook's body.",
      body: required(bodies.ack),
      answers: { 200: { says: "The acknowledgement is durable.", content: json(acked) } },
      refuses: [...UNPROVEN, "invalid-offset"],
    },
    "ds.keys": {
      summary: "Get the keys that verify webhook signatures",
      answers: { 200: { says: "A JSON Web Key Set.", content: { "application/jwk-set+json": keySet } } },
      refuses: [],
    },
  }) satisfies Readonly<Record<string, Description>>;
