/**
 * What a subscription may be set to, through any door: checks, and the defaults of what is not given. The service calls it.
 *
 * Invariants: a refusal names the option and what is allowed. No subscription is stored with options that are refused here.
 */
import { Refusal } from "../core/refusal.ts";
import { refuseReserved } from "../core/reserved.ts";
import type { SubscriptionChange, SubscriptionOptions } from "./contract.ts";
import { MAX_ACK_DEADLINE_MS, MIN_ACK_DEADLINE_MS, SUBSCRIPTION_DEFAULTS } from "./defaults.ts";
import { parseFilter } from "./filter.ts";

const NAME = /^[A-Za-z0-9._~%+:@-]{1,255}$/;
const MAX_ATTEMPTS = 65_535;
const MAX_BACKOFF_MS = 600_000;
const MIN_EXPIRY_MS = 1_000;

/** Throws a Refusal for a name that no subscription or snapshot can have. */
export function checkName(what: string, name: string): void {
  if (NAME.test(name)) return;
  throw new Refusal("bad-request", `the name of a ${what} must be 1 to 255 letters, digits or any of . _ ~ % + : @ -`);
}

/** All options, the missing ones with their defaults. Throws a Refusal for those that are not allowed. */
export function optionsOf(asked: Partial<SubscriptionOptions>): SubscriptionOptions {
  const given = Object.entries(asked).filter(([, value]) => value !== undefined);
  const options = { ...SUBSCRIPTION_DEFAULTS, ...(Object.fromEntries(given) as Partial<SubscriptionOptions>) };
  if (options.filter !== undefined && options.filter !== "") parseFilter(options.filter);
  checkOptions(options);
  return options;
}

/** Throws a Refusal for an ack deadline that no message can have. */
export function checkAckDeadline(ms: number): void {
  checkRange("the ack deadline", ms, MIN_ACK_DEADLINE_MS, MAX_ACK_DEADLINE_MS);
}

export function checkOptions(options: SubscriptionChange): void {
  const { ackDeadlineMs, retryPolicy, deadLetter, retentionMs, expiresAfterMs } = options;
  if (ackDeadlineMs !== undefined) checkAckDeadline(ackDeadlineMs);
  if (retryPolicy !== undefined) {
    checkRange("the shortest backoff", retryPolicy.minBackoffMs, 0, MAX_BACKOFF_MS);
    checkRange("the longest backoff", retryPolicy.maxBackoffMs, retryPolicy.minBackoffMs, MAX_BACKOFF_MS);
  }
  if (deadLetter !== undefined) {
    refuseReserved(deadLetter.topic);
    if (deadLetter.topic === "") throw new Refusal("bad-request", "the dead-letter policy needs a topic");
    checkRange("the number of attempts", deadLetter.maxAttempts, 1, MAX_ATTEMPTS);
  }
  if (retentionMs !== undefined) checkRange("the retention", retentionMs, 1, Number.MAX_SAFE_INTEGER);
  if (expiresAfterMs !== undefined) {
    checkRange("the time to expiry", expiresAfterMs, MIN_EXPIRY_MS, Number.MAX_SAFE_INTEGER);
  }
}

function checkRange(what: string, value: number, min: number, max: number): void {
  if (Number.isFinite(value) && value >= min && value <= max) return;
  throw new Refusal("bad-request", `${what} must be a number from ${min} to ${max}; got ${value}`);
}
