/** What every refusal must look like, whichever way it was provoked. */
import { type ErrorCode, errors } from "@sluice/protocol";
import { expect } from "vitest";
import type { RawResponse } from "./raw-http.ts";

export interface ReadProblem {
  readonly code: ErrorCode;
  readonly detail: string;
  readonly status: number;
}

export async function expectProblem(response: Response, status: number, code: ErrorCode): Promise<ReadProblem> {
  const headers = new Map(response.headers);
  const problem = checkProblem({ status: response.status, headers, body: Buffer.from(await response.arrayBuffer()) });
  expect(problem).toMatchObject({ status, code });
  return problem;
}

/** The frames of a stack: "at name (file:line:column)" or "at file:line:column". */
const STACK = /\bat .*:\d+:\d+|node:internal|\.ts:\d+|\.js:\d+/;
const FIELDS = ["type", "title", "status", "detail", "code", "retryable"];

/**
 * Throws, saying what is wrong with it, when this is not a refusal as the contract wants it. Without `expect`, because the
 * fuzz tests ask tens of thousands of times.
 */
export function checkProblem({ status, headers, body }: RawResponse): ReadProblem {
  const text = body.toString();
  const demand = (holds: unknown, what: string) => {
    if (!holds) throw new Error(`${what}, in a ${status}: ${text}`);
  };
  demand(headers.get("content-type") === "application/problem+json", "the content type is not that of a problem");
  const problem = JSON.parse(text) as Record<string, unknown>;
  for (const field of FIELDS) demand(field in problem, `${field} is missing`);
  const code = problem.code as ErrorCode;
  const kind = errors[code];
  demand(kind !== undefined, "the code is in no table");
  demand(problem.type === `urn:sluice:problem:${code}`, "the type is wrong");
  demand(problem.title === kind.title && problem.retryable === kind.retryable, "title or retryable is wrong");
  demand(problem.status === status && kind.status === status, "the status is not the code's");
  const detail = problem.detail as string;
  demand(typeof detail === "string" && detail !== "", "the detail says nothing");
  demand(!STACK.test(detail), "the detail shows a stack");
  if (status === 405) demand(headers.get("allow"), "Allow is missing");
  if (status === 503 || status === 429)
    demand(/^\d+$/.test(headers.get("retry-after") ?? ""), "Retry-After is missing");
  if (status === 413) demand(/\d+ (bytes|messages)/.test(detail), "the limit is not stated");
  return { code, detail, status };
}
