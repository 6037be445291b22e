/**
 * Subscriptions between Google's messages and those of pull, with the limits and defaults of Google's service.
 *
 * Invariants: a subscription is answered with a push configuration, an empty one if it has none, because Google's clients read it.
 */
import { Refusal } from "../../core/refusal.ts";
import type { DeadLetterPolicy, RetryPolicy, Subscription, SubscriptionChange } from "../../pull/contract.ts";
import type { Definitions } from "./definitions.ts";
import { DELETED_TOPIC, type Names } from "./names.ts";
import { checkMask, replaced } from "./topics.ts";
import { msOf, type SubscriptionWire, spanOf } from "./wire.ts";

const TYPE = "google.pubsub.v1.Subscription";
const ACTIVE = 1;

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
const DEADLINE_SECONDS = { least: 10, most: 600 };
const RETENTION_MS = { least: 600_000, most: 31 * DAY_MS, default: 7 * DAY_MS };
const EXPIRY_MS = { least: DAY_MS, default: 31 * DAY_MS };
const ATTEMPTS = { least: 5, most: 100, default: 5 };
const BACKOFF_MS = { least: 10_000, most: 600_000 };

/** The members that mean nothing to the server, and are kept. */
const KEPT = ["pushConfig", "bigqueryConfig", "cloudStorageConfig", "bigtableConfig", "messageTransforms"] as const;

/** How each member of an update changes a subscription. */
const READ: Readonly<Record<string, (wire: SubscriptionWire, names: Names) => SubscriptionChange>> = {
  ackDeadlineSeconds: ({ ackDeadlineSeconds }) => ({ ackDeadlineMs: deadlineMs(ackDeadlineSeconds) }),
  retainAckedMessages: ({ retainAckedMessages }) => ({ retainsAcked: retainAckedMessages }),
  messageRetentionDuration: (wire) => ({ retentionMs: retentionMs(wire) }),
  labels: ({ labels }) => ({ labels: { ...labels } }),
  expirationPolicy: (wire) => ({ expiresAfterMs: expiryMs(wire) }),
  deadLetterPolicy: (wire, names) => ({ deadLetter: deadLetterOf(wire, names) }),
  retryPolicy: (wire) => ({ retryPolicy: retryOf(wire) }),
  enableExactlyOnceDelivery: ({ enableExactlyOnceDelivery }) => ({ isExactlyOnce: enableExactlyOnceDelivery }),
};

const CHANGEABLE = new Set<string>([...Object.keys(READ), ...KEPT]);

export function optionsOf(wire: SubscriptionWire, names: Names, definitions: Definitions) {
  const { filter, enableMessageOrdering: isOrdered } = wire;
  const read: SubscriptionChange = Object.assign({}, ...Object.values(READ).map((one) => one(wire, names)));
  return { ...read, isOrdered, filter: filter || undefined, opaque: keptOf(wire, definitions) };
}

/** The change that an update asks for. `known` has the members that it leaves as they are. */
export function subscriptionChange(
  wire: SubscriptionWire,
  mask: ReadonlySet<string>,
  known: Subscription,
  names: Names,
  definitions: Definitions,
): SubscriptionChange {
  checkMask(mask, CHANGEABLE);
  const read: SubscriptionChange = Object.assign({}, ...[...mask].map((member) => READ[member]?.(wire, names)));
  const kept = KEPT.filter((member) => mask.has(member));
  if (kept.length === 0) return read;
  return { ...read, opaque: replaced(known.opaque, keptOf(wire, definitions), kept) };
}

function keptOf(wire: SubscriptionWire, definitions: Definitions): Readonly<Record<string, unknown>> {
  const json = definitions.toJson(TYPE, wire);
  return Object.fromEntries(KEPT.flatMap((member) => (json[member] === undefined ? [] : [[member, json[member]]])));
}

/** Throws a Refusal for a deadline that Google's service does not take. 0 is the default. */
export function deadlineMs(seconds: number): number {
  if (seconds === 0) return DEADLINE_SECONDS.least * SECOND_MS;
  if (seconds < DEADLINE_SECONDS.least || seconds > DEADLINE_SECONDS.most) {
    throw new Refusal(
      "bad-request",
      `Invalid ack deadline given (ack_deadline_seconds=${seconds}): it must be 10 to 600.`,
    );
  }
  return seconds * SECOND_MS;
}

/** The deadline of messages that are delivered already may be any; 0 gives them back. */
export function modifiedMs(seconds: number): number {
  if (seconds >= 0 && seconds <= DEADLINE_SECONDS.most) return seconds * SECOND_MS;
  throw new Refusal(
    "bad-request",
    `Invalid ack deadline given (ack_deadline_seconds=${seconds}): it must be 0 to 600.`,
  );
}

function retentionMs({ messageRetentionDuration: asked }: SubscriptionWire): number {
  return asked === null ? RETENTION_MS.default : within("message_retention_duration", msOf(asked), RETENTION_MS);
}

/** A policy without a time to live is one that never expires. */
function expiryMs({ expirationPolicy: asked }: SubscriptionWire): number | undefined {
  if (asked === null) return EXPIRY_MS.default;
  return asked.ttl === null ? undefined : within("expiration_policy.ttl", msOf(asked.ttl), EXPIRY_MS);
}

function deadLetterOf({ deadLetterPolicy: asked }: SubscriptionWire, names: Names): DeadLetterPolicy | undefined {
  if (asked === null) return undefined;
  const attempts = asked.maxDeliveryAttempts || ATTEMPTS.default;
  return {
    topic: names.topic(asked.deadLetterTopic),
    maxAttempts: within("max_delivery_attempts", attempts, ATTEMPTS),
  };
}

function retryOf({ retryPolicy: asked }: SubscriptionWire): RetryPolicy | undefined {
  if (asked === null) return undefined;
  const { minimumBackoff: min, maximumBackoff: max } = asked;
  return {
    minBackoffMs: min === null ? BACKOFF_MS.least : msOf(min),
    maxBackoffMs: max === null ? BACKOFF_MS.most : msOf(max),
  };
}

function within(
  what: string,
  value: number,
  { least, most = Number.MAX_SAFE_INTEGER }: { least: number; most?: number },
) {
  if (value >= least && value <= most) return value;
  throw new Refusal("bad-request", `Invalid ${what} given: ${value} is not from ${least} to ${most}.`);
}

export function subscriptionWire(one: Subscription, names: Names, definitions: Definitions): object {
  const { retryPolicy: retry, deadLetter, opaque = {} } = one;
  const seconds = Math.round(one.ackDeadlineMs / SECOND_MS);
  return {
    pushConfig: {},
    ...definitions.fromJson(TYPE, opaque),
    name: names.subscriptionName(one.name),
    topic: one.isTopicDeleted ? DELETED_TOPIC : names.topicName(one.topic),
    ackDeadlineSeconds: seconds,
    retainAckedMessages: one.retainsAcked,
    labels: one.labels ?? {},
    enableMessageOrdering: one.isOrdered,
    filter: one.filter ?? "",
    detached: one.isDetached,
    enableExactlyOnceDelivery: one.isExactlyOnce,
    state: ACTIVE,
    expirationPolicy: one.expiresAfterMs === undefined ? {} : { ttl: spanOf(one.expiresAfterMs) },
    ...(one.retentionMs !== undefined && { messageRetentionDuration: spanOf(one.retentionMs) }),
    ...(deadLetter !== undefined && {
      deadLetterPolicy: {
        deadLetterTopic: names.topicName(deadLetter.topic),
        maxDeliveryAttempts: deadLetter.maxAttempts,
      },
    }),
    ...(retry !== undefined && {
      retryPolicy: { minimumBackoff: spanOf(retry.minBackoffMs), maximumBackoff: spanOf(retry.maxBackoffMs) },
    }),
  };
}
