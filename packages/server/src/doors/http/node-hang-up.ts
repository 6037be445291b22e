/** The answer to what is no request: there is no response to write to, so it is written to the socket, which then ends. */
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type ErrorCode, errors, problem } from "@sluice/protocol";

/** `lingerMs`: how long the client may take to read why. */
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
