/**
 * Turns a fault into an HTTP response: the one place that combines an error with the error table, and a refusal's facts
 * with headers. Called by the adapter and the router.
 *
 * Invariants: a fact without a header of its own appears in the problem's body under its name.
 */
import { type ErrorCode, errors, header, problem } from "@sluice/protocol";
import type { Headers, Reply } from "../../core/http.ts";
import { type Fact, type Facts, Refusal } from "../../core/refusal.ts";
import { EngineError } from "../../engine/contract.ts";

/** `report` gets every fault whose details the client does not see. */
export function renderFault(fault: unknown, report: (fault: unknown) => void): Reply {
  const refusal = asRefusal(fault);
  if (refusal !== undefined) return renderRefusal(refusal);
  report(fault);
  if (fault instanceof EngineError) return renderRefusal(new Refusal(fault.code, fault.message));
  return renderRefusal(new Refusal("internal", "the server has logged the cause"));
}

/** Undefined for a fault that the operator must see: a defect, or damaged data. */
export function asRefusal(fault: unknown): Refusal | undefined {
  if (fault instanceof Refusal) return fault;
  const isExpected = fault instanceof EngineError && fault.code !== "data-damaged";
  return isExpected ? new Refusal(fault.code, fault.message) : undefined;
}

/** `more` is added to the body of the problem. */
export function renderRefusal(refusal: Refusal, more: object = {}): Reply {
  const { code, message, facts } = refusal;
  const headers: Headers = [header.contentType, "application/problem+json", header.cacheControl, "no-store"];
  headers.push(...refusalHeaders(refusal));
  const members = Object.entries(facts).filter(([name]) => !Object.hasOwn(FACT_HEADERS, name));
  const body = { ...problem(code, message), ...Object.fromEntries(members), ...more };
  return { status: errors[code].status, headers, body: JSON.stringify(body) };
}

/** The budget for bodies and answers has no room. Nothing was done yet, or only read. */
export function memoryFull(): Refusal {
  return new Refusal(
    "memory-full",
    "the server holds as many bytes of requests and answers as it may; retry in a moment",
  );
}

/** The header for a fact. */
export const FACT_HEADERS: Readonly<Record<string, string>> = {
  allow: header.allow,
  challenge: "WWW-Authenticate",
  closed: header.streamClosed,
  earliestOffset: header.streamEarliestOffset,
  expectedSeq: header.producerExpectedSeq,
  nextOffset: header.streamNextOffset,
  producerEpoch: header.producerEpoch,
  receivedSeq: header.producerReceivedSeq,
  shard: header.streamShard,
  shardCount: header.streamShards,
};

/** The challenge of a refusal by auth, unless its facts name another. */
const CHALLENGES: Partial<Readonly<Record<ErrorCode, string>>> = {
  unauthenticated: "",
  "token-invalid": "invalid_token",
  "token-expired": "invalid_token",
};

function refusalHeaders({ code, facts, retryAfterMs }: Refusal): Headers {
  const headers: Headers = [];
  const challenge = facts.challenge ?? CHALLENGES[code];
  const all: Facts = challenge === undefined ? facts : { ...facts, challenge };
  for (const [name, fact] of Object.entries(all)) {
    const known = FACT_HEADERS[name];
    if (known !== undefined) headers.push(known, name === "challenge" ? challengeText(fact) : String(fact));
  }
  const { status } = errors[code];
  if (retryAfterMs !== undefined) headers.push(header.retryAfter, String(Math.max(1, Math.ceil(retryAfterMs / 1_000))));
  else if (status === 503) headers.push(header.retryAfter, "1");
  return headers;
}

function challengeText(error: Fact): string {
  return error === "" ? "Bearer" : `Bearer error="${error}"`;
}
