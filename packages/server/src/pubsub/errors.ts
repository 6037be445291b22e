/** The errors of the library: a gRPC status code and a message. Users get them from promises and from the event `error`. */

import { Refusal } from "../core/refusal.ts";
import { EngineError } from "../engine/contract.ts";

export const CODE = {
  invalidArgument: 3,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  internal: 13,
  unavailable: 14,
} as const;

export class PubSubError extends Error {
  constructor(
    readonly code: number,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "PubSubError";
  }

  /** Whether a repetition cannot help, so that a stream ends. */
  get isFatal(): boolean {
    return this.code !== CODE.unavailable && this.code !== CODE.internal;
  }
}

const BY_REFUSAL: Readonly<Record<string, number>> = {
  "stream-not-found": CODE.notFound,
  "stream-gone": CODE.notFound,
  "subscription-not-found": CODE.notFound,
  "snapshot-not-found": CODE.notFound,
  "snapshot-exists": CODE.alreadyExists,
  "subscription-detached": CODE.failedPrecondition,
  "stream-closed": CODE.failedPrecondition,
  forbidden: CODE.permissionDenied,
  "reserved-name": CODE.permissionDenied,
  unavailable: CODE.unavailable,
  overloaded: CODE.unavailable,
  draining: CODE.unavailable,
};

/** What went wrong below, in the library's terms. */
export function errorOf(fault: unknown): PubSubError {
  if (fault instanceof PubSubError) return fault;
  if (fault instanceof Refusal) {
    if (fault.code === "subscription-not-found") return subscriptionNotFound();
    if (fault.code === "stream-not-found") return new PubSubError(CODE.notFound, "Topic not found", { cause: fault });
    return new PubSubError(BY_REFUSAL[fault.code] ?? CODE.invalidArgument, fault.message, { cause: fault });
  }
  if (fault instanceof EngineError) return new PubSubError(CODE.unavailable, fault.message, { cause: fault });
  const message = fault instanceof Error ? fault.message : String(fault);
  return new PubSubError(CODE.internal, message, { cause: fault });
}

export function subscriptionNotFound(): PubSubError {
  return new PubSubError(CODE.notFound, "Subscription not found");
}
