/**
 * The small request/reply shape that every HTTP route is written against. `doors/http` adapts it to `node:http`; another adapter
 * can put it on `fetch`.
 *
 * Invariants: routes parse a request, call a service and return a reply; they know no socket.
 */
import type { Awaitable } from "./awaitable.ts";
import { memo } from "./memo.ts";
import { Refusal } from "./refusal.ts";
import type { Sink } from "./sink.ts";
import type { Socket } from "./socket.ts";

export interface HttpRequest {
  readonly method: string;
  /** The path as it came, still percent-encoded, without the query. */
  readonly path: string;
  /** The text after `?`, or "". */
  readonly search: string;
  /** Scheme, host and port that the client addressed. The host is as the client sent it, and may be malformed. */
  readonly origin: string;
  /** Where another server has mounted this one, without a slash at its end; the path is the rest. */
  readonly prefix?: string | undefined;
  /** A header by its lower-case name. Repeated headers come joined by commas. */
  header(name: string): string | undefined;
  /** Requests with the same object have the same headers; undefined for headers that the door has not seen before. */
  readonly headerSet?: object | undefined;
  /**
   * The whole body, at once if it is at hand. Stops reading, without waiting for the rest, at the first byte beyond `maxBytes`.
   * Throws, or rejects with, a Refusal.
   */
  body(maxBytes: number): Awaitable<Body>;
  /** Runs once if the client goes away before the reply has ended. */
  onGone(task: () => void): void;
  /** The client asks for a WebSocket; the route may answer with `Reply.socket`. */
  readonly isUpgrade?: boolean | undefined;

  // The router fills in the fields below, for the code that runs after it.
  /** The name of the matched route, for the request log and the metrics; undefined if no route matched. */
  route?: string | undefined;
  project?: string | undefined;
  /** The answer waits for an event, so its duration says nothing about the server. */
  waits?: boolean | undefined;
}

export type Body = { readonly kind: "body"; readonly bytes: Uint8Array } | { readonly kind: "too-large" };

/** Names and values in turn, because `writeHead` takes that form without building an object. */
export type Headers = string[];

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body?: Uint8Array | string | undefined;
  /** Whether the door may compress the body for a client that asks. The reply varies by Accept-Encoding then. */
  readonly mayCompress?: boolean | undefined;
  /** Takes over the open connection after the headers are out. */
  readonly live?: ((sink: Sink) => void) | undefined;
  /** Takes over the WebSocket after the handshake. Only for a request that asks for one. */
  readonly socket?: ((socket: Socket) => void) | undefined;
}

/** Where the links in a reply start. */
export function linkBase({ origin, prefix = "" }: HttpRequest): string {
  return origin + prefix;
}

/** The decoded values of a query parameter; [] if absent. Malformed escapes stay as they are. */
export function queryValues(search: string, name: string): string[] {
  return mayHave(search, name) ? valuesIn(search, name) : [];
}

function valuesIn(search: string, name: string): string[] {
  const values: string[] = [];
  for (const part of search.split("&")) {
    const at = part.indexOf("=");
    const key = at < 0 ? part : part.slice(0, at);
    if (decode(key) === name) values.push(at < 0 ? "" : decode(part.slice(at + 1)));
  }
  return values;
}

/** Every read asks for several parameters, most of which are absent; only an escape could hide a name. */
function mayHave(search: string, name: string): boolean {
  return search !== "" && (search.includes(name) || search.includes("%"));
}

/** The only value of a query parameter. A repeated parameter is refused, because choosing one silently would hide a mistake. */
export function queryValue(search: string, name: string): string | undefined {
  if (!mayHave(search, name)) return undefined;
  const values = valuesIn(search, name);
  if (values.length > 1)
    throw new Refusal("bad-query", `the query parameter ${name} is given ${values.length} times; give it once`);
  return values[0];
}

function decode(text: string): string {
  if (!text.includes("%") && !text.includes("+")) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}

/** What `read` makes of a request's headers. It must follow from headers alone. Most clients send the same ones again. */
export function perHeaders<V extends object | boolean>(read: (request: HttpRequest) => V): (request: HttpRequest) => V {
  return memo(({ headerSet }) => headerSet, read);
}
