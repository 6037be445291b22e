/**
 * The gRPC status of a refusal. Every call that fails ends through here.
 *
 * Invariants: it follows the one error table (`protocol/src/error.ts`): a status of HTTP has one code of gRPC, except that what exists
 * already is told from other conflicts. No call ends with UNKNOWN, because Google's clients give a stream up that does.
 */
import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { type ErrorCode, errors } from "@sluice/protocol";
import { Refusal } from "../../core/refusal.ts";
import { EngineError } from "../../engine/contract.ts";
import type { AckOutcome } from "../../pull/contract.ts";
import type { Definitions } from "./definitions.ts";
import type { Names } from "./names.ts";

const BY_HTTP: Readonly<Record<number, status>> = {
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
export type Failure = Pick<ServiceError, "code" | "details" | "metadata">;

function codeOf(code: ErrorCode): status {
  if (code.endsWith("-exists")) return status.ALREADY_EXISTS;
  return BY_HTTP[errors[code].status] ?? status.INTERNAL;
}

/** `report` gets faults whose details no client sees. */
export function failureOf(fault: unknown, names: Names | undefined, report: (fault: unknown) => void): Failure {
  const metadata = new Metadata();
  if (fault instanceof Refusal) {
    const code = codeOf(fault.code);
    return { code, details: detailsOf(fault, code, names), metadata };
  }
  if (fault instanceof EngineError) return { code: codeOf(fault.code), details: fault.message, metadata };
  report(fault);
  return { code: status.INTERNAL, details: "something went wrong in the server", metadata };
}

/** In Google's words, which programs look for. */
function detailsOf(refusal: Refusal, code: status, names: Names | undefined): string {
  const resource = names?.named(refusal);
  if (resource === undefined) return refusal.message;
  if (code === status.NOT_FOUND) return `Resource not found (resource=${resource}).`;
  if (code === status.ALREADY_EXISTS) return `Resource already exists in the project (resource=${resource}).`;
  return refusal.message;
}

/** The caller should read again and repeat what it did. */
export function abortedBy(details: string): Failure {
  return { code: status.ABORTED, details, metadata: new Metadata() };
}

const REASONS: Readonly<Record<Exclude<AckOutcome, "done">, string>> = {
  gone: "PERMANENT_FAILURE_INVALID_ACK_ID",
  failed: "TRANSIENT_FAILURE_SERVICE_UNAVAILABLE",
};

/**
 * What answers acknowledgements of an exactly-once subscription that did not all succeed; undefined if they did. With ABORTED,
 * clients repeat the ids that are not named, and a repeated acknowledgement succeeds again.
 */
export function ackFailure(ids: readonly string[], outcomes: readonly AckOutcome[], definitions: Definitions) {
  const reasons: Record<string, string> = {};
  for (const [i, outcome] of outcomes.entries()) if (outcome !== "done") reasons[ids[i]!] = REASONS[outcome];
  if (Object.keys(reasons).length === 0) return undefined;
  const details = "Some acknowledgement ids in the request were invalid. This could be because they have expired.";
  const info = { reason: "EXACTLY_ONCE_ACKID_FAILURE", domain: "pubsub.googleapis.com", metadata: reasons };
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", definitions.richStatus(status.ABORTED, details, info));
  return { code: status.ABORTED, details, metadata } satisfies Failure;
}
