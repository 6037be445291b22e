/**
 * Judges whether the contract allows an answer to a malformed request. storm.ts calls it for every answer.
 *
 * Invariants: a forbidden answer throws, with the request in the message.
 */
import { header } from "@sluice/protocol";
import { checkProblem } from "../problem.ts";
import type { Answer, RawResponse } from "../raw-http.ts";
import { type FuzzRequest, PARAMETERS, render } from "./requests.ts";

const HEADER_NAMES = [...Object.values(header), "Host", "Expect"];

export function judge(request: FuzzRequest, answer: Answer): void {
  try {
    if (answer === "closed") throw new Error("the connection ended without an answer");
    judgeAnswer(answer, request.method);
    if (answer.status >= 400 && request.method !== "HEAD") judgeNaming(request, answer);
  } catch (reason) {
    throw new Error(`${(reason as Error).message}\n--- to ---\n${JSON.stringify(render(request))}`);
  }
}

export function judgeAnswer(answer: RawResponse, method: string): void {
  const { status, headers } = answer;
  if (!(status >= 200 && status < 500)) throw new Error(`status ${status}: ${answer.body}`);
  if (headers.get("x-content-type-options") !== "nosniff") throw new Error(`a ${status} without nosniff`);
  if (status >= 400 && method !== "HEAD") checkProblem(answer);
}

const isSent = ({ headers }: FuzzRequest, header: string): boolean =>
  headers.some(([name]) => name.toLowerCase() === header.toLowerCase());

/**
 * The detail must name the wrong part of the request; that part is in the request, or the detail says that it is missing.
 */
function judgeNaming(request: FuzzRequest, answer: RawResponse): void {
  const { code, detail } = checkProblem(answer);
  const isWhole = (...words: string[]) => words.some((word) => detail.toLowerCase().includes(word));
  switch (code) {
    case "bad-header": {
      const named = HEADER_NAMES.filter((name) => detail.includes(name));
      if (named.length === 0) throw new Error(`no header is named: ${detail}`);
      if (!named.some((name) => isSent(request, name)) && !isWhole("missing")) {
        throw new Error(`a header is named that was not sent: ${detail}`);
      }
      return;
    }
    case "bad-query":
    case "bad-offset": {
      if (code === "bad-offset" && isSent(request, "Last-Event-ID") && detail.startsWith("Last-Event-ID ")) return;
      const named = PARAMETERS.filter((name) => detail.includes(`query parameter ${name}`));
      if (named.length === 0) throw new Error(`no query parameter is named: ${detail}`);
      return;
    }
    case "bad-path":
      if (!isWhole("path")) throw new Error(`the path is not named: ${detail}`);
      return;
    case "bad-project":
      if (!isWhole("project")) throw new Error(`the project is not named: ${detail}`);
      return;
    case "bad-body":
    case "empty-body":
      if (!isWhole("body", "array", "field", "must", "path")) throw new Error(`the body is not named: ${detail}`);
      return;
  }
}
