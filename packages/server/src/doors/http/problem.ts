/** How a fault becomes a response: the one place where an error meets the error table. */
import { type ErrorCode, errors, header, problem } from "@sluice/protocol";
import { type Headers, Refusal, type Reply } from "../../core/http.ts";
import { EngineError } from "../../engine/contract.ts";

/** `report` hears of what the client is not told. */
export function renderFault(fault: unknown, report: (fault: unknown) => void): Reply {
  if (fault instanceof Refusal) return renderProblem(fault.code, fault.message, fault.headers, fault.members);
  if (fault instanceof EngineError) {
    if (fault.code === "data-damaged") report(fault);
    return renderProblem(fault.code, fault.message);
  }
  report(fault);
  return renderProblem("internal", "the server has logged what happened");
}

function renderProblem(code: ErrorCode, detail: string, more: Headers = [], members?: Refusal["members"]): Reply {
  const { status } = errors[code];
  const headers: Headers = [header.contentType, "application/problem+json", header.cacheControl, "no-store", ...more];
  if (status === 503 && !more.includes(header.retryAfter)) headers.push(header.retryAfter, "1");
  return { status, headers, body: JSON.stringify({ ...problem(code, detail), ...members }) };
}
