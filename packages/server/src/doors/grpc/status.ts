/**
 * The gRPC status of a refusal. Every call that fails ends through here.
 *
 * Invariants: it follows the one error table (`protocol/src/error.ts`): a status of HTTP has one code of gRPC, except that what exists
 * already is told from other conflicts. No call ends with UNKNOWN, because Google's clients give a stream up that does.
 */
import { type ErrorCode, errors } from "@sluice/protocol";
import { base64, utf8 } from "../../core/bytes.ts";
import { Refusal } from "../../core/refusal.ts";
import { EngineError } from "../../engine/contract.ts";
import type { AckOutcome } from "../../pull/contract.ts";
import type { Definitions } from "./definitions.ts";
import type { Names } from "./names.ts";

/** By their numbers. */
export const CODES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

export const status = Object.fromEntries(CODES.map((name, code) => [name, code])) as Readonly<
  Record<(typeof CODES)[number], number>
>;

const BY_HTTP: Readonly<Record<number, number>> = {
  400: status.INVALID_ARGUMENT,
  401: status.UNAUTHENTICATED,
  403: status.PERMISSION_DENIED,
  404: status.NOT_FOUND,
  408: status.DEADLINE_EXCEEDED,
  409: status.FAILED_PRECONDITION,
  410: status.FAILED_PRECONDITION,
  413: status.INVALID_ARGUMENT,
  429: status.RESOURCE_EXHAUSTED,
  503: status.UNAVAILABLE,
};

/** What a call ends with. */
export interface Failure {
  readonly code: number;
  readonly details: string;
  /** A `google.rpc.Status` that tells more. */
  readonly rich?: Uint8Array;
}

function codeOf(code: ErrorCode): number {
  if (code.endsWith("-exists")) return status.ALREADY_EXISTS;
  return BY_HTTP[errors[code].status] ?? status.INTERNAL;
}

/** `report` gets faults whose details no client sees. */
export function failureOf(fault: unknown, names: Names | undefined, report: (fault: unknown) => void): Failure {
  if (fault instanceof Refusal) {
    const code = codeOf(fault.code);
    return { code, details: detailsOf(fault, code, names) };
  }
  if (fault instanceof EngineError) return { code: codeOf(fault.code), details: fault.message };
  report(fault);
  return { code: status.INTERNAL, details: "something went wrong in the server; its log has the cause" };
}

/** In Google's words, which programs look for. */
function detailsOf(refusal: Refusal, code: number, names: Names | undefined): string {
  const resource = names?.named(refusal);
  if (resource === undefined) return refusal.message;
  if (code === status.NOT_FOUND) return `Resource not found (resource=${resource}).`;
  if (code === status.ALREADY_EXISTS) return `Resource already exists in the project (resource=${resource}).`;
  return refusal.message;
}

/** The caller should read again and repeat what it did. */
export function abortedBy(details: string): Failure {
  return { code: status.ABORTED, details };
}

const REASONS: Readonly<Record<Exclude<AckOutcome, "done">, string>> = {
  gone: "PERMANENT_FAILURE_INVALID_ACK_ID",
  failed: "TRANSIENT_FAILURE_SERVICE_UNAVAILABLE",
};

/** Clients in other languages take trailers of 16 KiB. */
const MAX_REASONS_CHARS = 8_192;

/**
 * What answers acknowledgements of an exactly-once subscription that did not all succeed; undefined if they did. With ABORTED,
 * clients repeat the ids that are not named: a repeated acknowledgement succeeds again, and of many failures the rest is told then.
 */
export function ackFailure(ids: readonly string[], outcomes: readonly AckOutcome[], definitions: Definitions) {
  const reasons: Record<string, string> = {};
  let chars = 0;
  for (const [i, outcome] of outcomes.entries()) {
    if (outcome === "done") continue;
    chars += ids[i]!.length + REASONS[outcome].length;
    if (chars > MAX_REASONS_CHARS) break;
    reasons[ids[i]!] = REASONS[outcome];
  }
  if (Object.keys(reasons).length === 0) return undefined;
  const details = "Some acknowledgement ids in the request were invalid. This could be because they have expired.";
  const info = { reason: "EXACTLY_ONCE_ACKID_FAILURE", domain: "pubsub.googleapis.com", metadata: reasons };
  return {
    code: status.ABORTED,
    details,
    rich: definitions.richStatus(status.ABORTED, details, info),
  } satisfies Failure;
}

/** Of a longer text, a header would end the connection of its client. */
const MAX_DETAILS_CHARS = 1_000;
const PLAIN = /^[\x20-\x24\x26-\x7e]*$/;

/** The trailers that a call ends with. */
export function trailersOf({ code, details, rich }: Failure): Record<string, string> {
  const trailers: Record<string, string> = { "grpc-status": String(code) };
  if (details !== "") trailers["grpc-message"] = percentEncoded(details.slice(0, MAX_DETAILS_CHARS));
  if (rich !== undefined) trailers["grpc-status-details-bin"] = base64(rich);
  return trailers;
}

function percentEncoded(text: string): string {
  if (PLAIN.test(text)) return text;
  let encoded = "";
  for (const byte of utf8(text)) {
    const char = String.fromCharCode(byte);
    encoded += PLAIN.test(char) ? char : `%${byte.toString(16).padStart(2, "0").toUpperCase()}`;
  }
  return encoded;
}
