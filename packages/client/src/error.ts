/**
 * The error class for refusals and faults. Every rejected promise and every loop that ends early carries one, except for an
 * abort (the signal's own reason) and for errors that the user's own functions throw.
 *
 * Invariants: `retryable` means that the client has retried and given up, and that a write may or may not have happened.
 * Without it the server has refused, and nothing was written. An error about a request names its method and URL.
 */
import { type ErrorCode, header } from "@sluice/protocol";

/** Failures that the client detects without an answer from the server. */
export type ClientErrorCode =
  /** No answer: refused, reset, or cut off in the middle. */
  | "unreachable"
  /** No answer in time. */
  | "timeout"
  /** The `token` function failed. */
  | "token-failed"
  /** More messages wait to be sent than the documented bound. */
  | "queue-full"
  /** A value cannot be sent, or a value that was read does not match the schema. */
  | "invalid-value"
  /** The client does not understand the answer. */
  | "bad-answer"
  /** The server answers, and a read stays where it is. */
  | "no-progress"
  /** The caller asked for a channel's whole text, and part of it was trimmed. */
  | "incomplete"
  /** The publisher of a channel has reported an error. */
  | "publisher-failed"
  /** A reader has asked the publisher of a channel to stop. */
  | "stopped"
  /** A function of the caller's threw while it handled a message or an event. */
  | "handler-failed"
  /** The client, the session or the publisher was already closed. */
  | "closed";

/** `string & {}` keeps the known codes in completions and allows the codes of newer servers. */
export type SluiceErrorCode = ErrorCode | ClientErrorCode | (string & {});

/** The request that an error is about. The URL is without the client's own query parameters, which may hold secrets. */
export interface RequestLine {
  readonly method: string;
  readonly url: string;
}

export interface ErrorDetails extends Partial<RequestLine> {
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
  /** The request that failed, when there was one. */
  declare readonly method: string | undefined;
  declare readonly url: string | undefined;
  /** The HTTP status, when the server answered. */
  declare readonly status: number | undefined;
  declare readonly retryable: boolean;
  /** How long the server asks the client to wait before a retry. */
  declare readonly retryAfterMs: number | undefined;
  declare readonly headers: Headers | undefined;
  /** The schema's objections to a value. */
  declare readonly issues: readonly unknown[] | undefined;
  /** The offset after the message that this error is about; reading can resume from there. */
  declare readonly offset: string | undefined;
  /** The part of a channel's text that had arrived. */
  declare readonly partial: string | undefined;

  constructor(
    readonly code: SluiceErrorCode,
    message: string,
    { cause, retryable = false, ...details }: ErrorDetails = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    Object.assign(this, details, { retryable });
  }
}

/** Statuses that mean "retry later" when the answer does not say so itself. */
const AGAIN = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Reads a refusal: from Sluice, from another server of the protocol, or from a proxy in between. */
export function refusalOf(at: RequestLine, status: number, headers: Headers, body: string, nowMs: number): SluiceError {
  const said = problemIn(body);
  const code = typeof said?.code === "string" ? said.code : codeOf(status, headers);
  const detail = said?.detail ?? said?.title;
  return new SluiceError(code, typeof detail === "string" ? detail : `the server answered ${status}`, {
    ...at,
    status,
    headers,
    retryable: typeof said?.retryable === "boolean" ? said.retryable : AGAIN.has(status),
    retryAfterMs: parseRetryAfter(headers.get("retry-after"), nowMs),
  });
}

/** The protocol's headers tell these refusals apart on a server that has no codes. */
function codeOf(status: number, headers: Headers): SluiceErrorCode {
  if (status === 403 && headers.has(header.producerEpoch)) return "producer-fenced";
  if (status === 409 && headers.has(header.producerExpectedSeq)) return "producer-gap";
  if (status === 409 && headers.has(header.streamClosed)) return "stream-closed";
  return `http-${status}`;
}

export function hasCode(error: unknown, ...codes: readonly ErrorCode[]): error is SluiceError {
  return error instanceof SluiceError && (codes as readonly string[]).includes(error.code);
}

/** Whether the server refused with this code, or with the status alone, as a server without codes does. */
export function isRefusal(error: unknown, status: number, code: ErrorCode): error is SluiceError {
  return hasCode(error, code) || (error instanceof SluiceError && error.code === `http-${status}`);
}

/** An answer that this client cannot use. */
export function badAnswer(at: RequestLine, status: number, says: string, details: ErrorDetails = {}): SluiceError {
  return new SluiceError("bad-answer", `${says} (${at.method} ${at.url} answered ${status})`, {
    ...details,
    ...at,
    status,
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

/** Reads seconds, or a date. */
export function parseRetryAfter(text: string | null, nowMs: number): number | undefined {
  if (text === null) return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(text)) return Number(text) * 1_000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

export function describeCause(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // Node's message is "fetch failed"; its cause holds the reason.
  return cause.cause instanceof Error ? `${cause.message}: ${cause.cause.message}` : cause.message;
}
