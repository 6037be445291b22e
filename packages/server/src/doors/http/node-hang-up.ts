/**
 * Refuses input that is not an HTTP request. There is no response object for it, so the refusal is written to the
 * socket, which then closes. Called by the adapter.
 */
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type ErrorCode, errors, problem } from "@sluice/protocol";

/** `lingerMs`: how long the client may take to read the reason. */
export function hangUp(
  socket: Socket,
  lingerMs: number,
  code: ErrorCode,
  detail: string,
  more: readonly string[] = [],
): void {
  const body = JSON.stringify(problem(code, detail));
  const { status } = errors[code];
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "X-Content-Type-Options: nosniff",
    "Connection: close",
    ...more,
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
  setTimeout(() => socket.destroy(), lingerMs).unref();
}
