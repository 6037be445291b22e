/**
 * The headers that every response gets from the door, whatever its route said. Both ways to write a response use it.
 */
import type { Headers, Reply } from "../../core/http.ts";

/** For every response. */
export const SAFE: readonly string[] = [
  "X-Content-Type-Options",
  "nosniff",
  "Cross-Origin-Resource-Policy",
  "cross-origin",
];
const POLICY = "Content-Security-Policy";
/**
 * Content is what a client stored, of the type it chose. A browser that opens it as a page runs none of its scripts and gives
 * it an origin of its own, so that it cannot act with its reader's cookie.
 */
export const SANDBOXED: readonly string[] = [POLICY, "sandbox; default-src 'none'"];

/** Whether the response is content without a policy. A page of the server itself brings its own. */
export function needsSandbox({ body, live, headers }: Reply): boolean {
  return (body !== undefined || live !== undefined) && !headers.includes(POLICY);
}

/** The value of Content-Length; undefined for a response that has none. */
export function contentLength({ body, status }: Reply, method: string): number | undefined {
  if (body !== undefined) return lengthOf(body);
  return status === 204 || status === 304 || method === "HEAD" ? undefined : 0;
}

export function addSafeHeaders(headers: Headers, reply: Reply): void {
  headers.push(...SAFE);
  if (needsSandbox(reply)) headers.push(...SANDBOXED);
}

export function lengthOf(body: Uint8Array | string): number {
  return typeof body === "string" ? Buffer.byteLength(body) : body.length;
}

/** Above this, copying a body costs more than a second buffer for the network. */
const ONE_WRITE_BYTES = 4_096;

/** A small body with one character for each byte, so that it goes to the network with its head in one write. */
export function asLatin1(body: Uint8Array | string): string | undefined {
  if (body.length > ONE_WRITE_BYTES) return undefined;
  if (typeof body === "string") return lengthOf(body) === body.length ? body : Buffer.from(body).toString("latin1");
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("latin1");
}
