/**
 * The one kind of error that this client makes of refusals and faults. Every rejected promise and every loop that ends early
 * carries one, except for an abort (the signal's own reason) and for what the user's own functions throw.
 *
 * Invariant: `retryable` on an error that reaches the caller means that the client has tried and given up, and that
 * a write may or may not have happened; without it the server has said no, and nothing was written.
 */
import type { ErrorCode } from "@sluice/protocol";

/** What can go wrong without the server saying so. */
export type ClientErrorCode =
  /** No answer: refused, reset, or cut off in the middle. */
  | "unreachable"
  /** No answer in time. */
  | "timeout"
  /** The `token` function failed. */
  | "token-failed"
  /** More is waiting to be sent than the documented bound. */
  | "queue-full"
  /** A value cannot be sent, or one that was read is not what the schema wants. */
  | "invalid-value"
  /** The answer is not one that this client understands. */
  | "bad-answer"
  /** A channel's text was asked for, and part of it is gone. */
  | "incomplete"
  /** The publisher of a channel has reported an error. */
  | "publisher-failed"
  /** Another publisher uses the channel. */
  | "channel-taken"
  /** The client or the publisher was closed before. */
  | "closed";

/** The last of these keeps the known codes in completions while allowing those of newer servers. */
export type SluiceErrorCode = ErrorCode | ClientErrorCode | (string & {});

export interface ErrorDetails {
  readonly status?: number | undefined;
  readonly retryable?: boolean | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly headers?: Headers | undefined;
  readonly cause?: unknown;
  readonly issues?: readonly unknown[] | undefined;
  readonly offset?: string | undefined;
  readonly partial?: string | undefined;
}

export class SluiceError extends Error {
  override readonly name = "SluiceError";
  /** The HTTP status, when there was an answer. */
  readonly status: number | undefined;
  readonly retryable: boolean;
  /** When the server asked to be left alone until. */
  readonly retryAfterMs: number | undefined;
  readonly headers: Headers | undefined;
  /** What a schema has said about a value. */
  readonly issues: readonly unknown[] | undefined;
  /** The offset after the message that this is about; reading can go on from there. */
  readonly offset: string | undefined;
  /** What had come of a channel's text. */
  readonly partial: string | undefined;

  constructor(
    readonly code: SluiceErrorCode,
    message: string,
    details: ErrorDetails = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.status = details.status;
    this.retryable = details.retryable ?? false;
    this.retryAfterMs = details.retryAfterMs;
    this.headers = details.headers;
    this.issues = details.issues;
    this.offset = details.offset;
    this.partial = details.partial;
  }
}

/** Statuses that mean "again later" when the answer does not say by itself. */
const AGAIN = new Set([408, 425, 429, 500, 502, 503, 504]);

/** What a refusal says, whether it comes from Sluice or from a proxy in between. */
export function refusalOf(status: number, headers: Headers, body: string, nowMs: number): SluiceError {
  const said = problemIn(body);
  const code = typeof said?.code === "string" ? said.code : `http-${status}`;
  const detail = said?.detail ?? said?.title;
  return new SluiceError(code, typeof detail === "string" ? detail : `the server answered ${status}`, {
    status,
    headers,
    retryable: typeof said?.retryable === "boolean" ? said.retryable : AGAIN.has(status),
    retryAfterMs: parseRetryAfter(headers.get("retry-after"), nowMs),
  });
}

function problemIn(body: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Seconds, or a date. */
export function parseRetryAfter(text: string | null, nowMs: number): number | undefined {
  if (text === null) return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(text)) return Number(text) * 1_000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

export function describeCause(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // Node says "fetch failed" and hides why.
  return cause.cause instanceof Error ? `${cause.message}: ${cause.cause.message}` : cause.message;
}
