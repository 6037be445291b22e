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

export function renderAnswer(reply: Reply, method: string, closes: boolean, shared: SharedParts): Answer {
  const { status, headers, body } = reply;
  const length = contentLength(reply, method);
  let text = beginningOf(status, needsSandbox(reply), closes, shared.limits.keepAliveMs);
  for (let i = 0; i < headers.length; i += 2) text += line(headers[i]!, headers[i + 1]!);
  text += length === undefined ? "\r\n" : `Content-Length: ${length}\r\n\r\n`;
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

/** The beginnings of heads that were sent within this second, each as one flat string. */
const beginnings = new Map<number, string>();
let keptAliveMs = 0;
let dated = "";

/** What is the same in many heads: the status line, and the headers that no route gives. */
function beginningOf(status: number, isSandboxed: boolean, closes: boolean, keepAliveMs: number): string {
  if (keepAliveMs !== keptAliveMs) beginnings.clear();
  keptAliveMs = keepAliveMs;
  const key = status * 4 + (isSandboxed ? 2 : 0) + (closes ? 1 : 0);
  let text = beginnings.get(key);
  if (text === undefined) {
    const safe = isSandboxed ? SANDBOXED_LINES : SAFE_LINES;
    const alive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1_000)}\r\n`;
    const parts = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${safe}${dateLine()}${closes ? "Connection: close\r\n" : alive}`;
    // A string of many parts is put together anew at each write.
    text = Buffer.from(parts, "latin1").toString("latin1");
    beginnings.set(key, text);
  }
  return text;
}

/** The second in which it was made is over when the timer runs. */
function dateLine(): string {
  if (dated === "") {
    const now = new Date();
    dated = `Date: ${now.toUTCString()}\r\n`;
    setTimeout(() => {
      dated = "";
      beginnings.clear();
    }, 1_000 - now.getMilliseconds()).unref();
  }
  return dated;
}
