/**
 * The bytes of a complete response, as `node:http` would send them. Requests of the lane use it.
 *
 * Invariants: a value with a character that could end its header is refused, as `node:http` refuses it. The head has one byte
 * for each character.
 */
import { STATUS_CODES } from "node:http";
import type { Reply } from "../../core/http.ts";
import type { SharedParts } from "./door-request.ts";
import { asLatin1, contentLength, needsSandbox, SAFE, SANDBOXED } from "./response-headers.ts";

export interface Answer {
  /** The head, and the body if it is small. */
  readonly text: string;
  readonly body: Uint8Array | string | undefined;
  /** No response follows on this connection. */
  readonly closes: boolean;
}

const FORBIDDEN = /[^\t\x20-\x7e\x80-\xff]/;
const SAFE_LINES = linesOf(SAFE);
const SANDBOXED_LINES = SAFE_LINES + linesOf(SANDBOXED);
const CLOSE = "Connection: close\r\n\r\n";
const statusLines = new Map(
  Object.entries(STATUS_CODES).map(([status, text]) => [Number(status), `HTTP/1.1 ${status} ${text}\r\n`]),
);

export function renderAnswer(reply: Reply, method: string, closes: boolean, shared: SharedParts): Answer {
  const { status, headers, body } = reply;
  const length = contentLength(reply, method);
  let text = statusLines.get(status)!;
  for (let i = 0; i < headers.length; i += 2) text += line(headers[i]!, headers[i + 1]!);
  text += needsSandbox(reply) ? SANDBOXED_LINES : SAFE_LINES;
  if (length !== undefined) text += `Content-Length: ${length}\r\n`;
  text += dateLine() + (closes ? CLOSE : keepAliveLines(shared.limits.keepAliveMs));
  if (body === undefined || method === "HEAD") return { text, body: undefined, closes };
  shared.traffic.sentBytes += length!;
  const small = asLatin1(body);
  return small === undefined ? { text, body, closes } : { text: text + small, body: undefined, closes };
}

function line(name: string, value: string): string {
  if (FORBIDDEN.test(value)) throw new TypeError(`the header ${name} has a value that no response may carry`);
  return `${name}: ${value}\r\n`;
}

function linesOf(headers: readonly string[]): string {
  let text = "";
  for (let i = 0; i < headers.length; i += 2) text += line(headers[i]!, headers[i + 1]!);
  return text;
}

let keepAlive = { ms: 0, lines: "" };

function keepAliveLines(ms: number): string {
  if (keepAlive.ms !== ms) {
    const seconds = Math.floor(ms / 1_000);
    keepAlive = { ms, lines: `Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}\r\n\r\n` };
  }
  return keepAlive.lines;
}

let dated = "";

/** The second in which it was made is over when the timer runs. */
function dateLine(): string {
  if (dated === "") {
    const now = new Date();
    dated = `Date: ${now.toUTCString()}\r\n`;
    setTimeout(() => {
      dated = "";
    }, 1_000 - now.getMilliseconds()).unref();
  }
  return dated;
}
