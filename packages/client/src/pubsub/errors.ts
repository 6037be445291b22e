/**
 * The errors of the library: a gRPC status code and a message. Users get them from promises and from the event `error`.
 *
 * Invariants: one function translates, whatever the library stands on. What a repetition may mend has code 13 or 14.
 */
import { type ErrorCode, errors } from "@sluice/protocol";

export const CODE = {
  invalidArgument: 3,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
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

const BY_STATUS: Readonly<Record<number, number>> = {
  401: CODE.unauthenticated,
  403: CODE.permissionDenied,
  404: CODE.notFound,
  409: CODE.failedPrecondition,
  410: CODE.notFound,
};

/** A refusal of the service, of the store or of a server; any other fault has no `code` of the table. */
interface Refused {
  readonly code?: unknown;
  readonly status?: number | undefined;
  readonly retryable?: boolean | undefined;
  readonly message?: string;
}

/** What went wrong below, in the library's terms. */
export function errorOf(fault: unknown): PubSubError {
  if (fault instanceof PubSubError) return fault;
  const { code, status, retryable, message = String(fault) } = (fault ?? {}) as Refused;
  if (code === "subscription-not-found") return subscriptionNotFound(fault);
  const known = Object.hasOwn(errors, String(code)) ? errors[code as ErrorCode] : undefined;
  const text = code === "stream-not-found" ? "Topic not found" : message;
  const isAgain = known?.retryable ?? retryable;
  return new PubSubError(numberOf(code, known?.status ?? status, isAgain), text, { cause: fault });
}

function numberOf(code: unknown, status: number | undefined, isAgain: boolean | undefined): number {
  if (code === "snapshot-exists") return CODE.alreadyExists;
  if (code === "internal") return CODE.internal;
  if (isAgain || (status ?? 0) >= 500) return CODE.unavailable;
  if (code === "closed") return CODE.failedPrecondition;
  if (status !== undefined) return BY_STATUS[status] ?? CODE.invalidArgument;
  return code === "invalid-value" ? CODE.invalidArgument : CODE.internal;
}

export function subscriptionNotFound(cause?: unknown): PubSubError {
  return new PubSubError(CODE.notFound, "Subscription not found", { cause });
}
