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

/** Throws, saying what is wrong with it, when this is not a refusal as the contract wants it. */
export function checkProblem({ status, headers, body }: RawResponse): ReadProblem {
  expect(headers.get("content-type"), `the content type of a ${status}`).toBe("application/problem+json");
  const text = body.toString();
  const problem = JSON.parse(text) as Record<string, unknown>;
  const code = problem.code as ErrorCode;
  const kind = errors[code];
  expect(kind, `the code of ${text}`).toBeDefined();
  expect(problem).toEqual({
    type: `urn:sluice:problem:${code}`,
    title: kind.title,
    status,
    detail: expect.any(String),
    code,
    retryable: kind.retryable,
  });
  expect(kind.status).toBe(status);
  const detail = problem.detail as string;
  expect(detail).not.toBe("");
  // The frames of a stack: "at name (file:line:column)" or "at file:line:column".
  expect(detail).not.toMatch(/\bat .*:\d+:\d+|node:internal|\.ts:\d+|\.js:\d+/);
  if (status === 405) expect(headers.get("allow"), "Allow of a 405").toBeTruthy();
  if (status === 503 || status === 429) expect(headers.get("retry-after"), "Retry-After").toMatch(/^\d+$/);
  if (status === 413) expect(detail).toMatch(/\d+ (bytes|messages)/);
  return { code, detail, status };
}
