/**
 * The small request/reply shape that every HTTP route is written against. `doors/http` adapts it to `node:http`; another
 * adapter can put it on `fetch`. Routes parse a request, call a service and return a reply; they know no socket.
 */
import { Refusal } from "./refusal.ts";
import type { Sink } from "./sink.ts";

export interface HttpRequest {
  readonly method: string;
  /** The path as it came, still percent-encoded, without the query. */
  readonly path: string;
  /** The text after `?`, or "". */
  readonly search: string;
  /** Scheme, host and port that the client addressed, for links back to us. */
  readonly origin: string;
  /** A header by its lower-case name. A repeated one comes joined by commas. */
  header(name: string): string | undefined;
  /** The whole body. Stops reading, without waiting for the rest, at the first byte beyond `maxBytes`. */
  body(maxBytes: number): Promise<Body>;
  /** Runs once when the client goes away before the reply ended. */
  onGone(task: () => void): void;

  // What the router notes on the way, for whoever comes after it.
  /** The name of the route that was found, for the request log and the metrics; undefined when there is none. */
  route?: string | undefined;
  project?: string | undefined;
  /** The answer waits for something to happen, so that its time says nothing about the server. */
  waits?: boolean | undefined;
}

export type Body = { readonly kind: "body"; readonly bytes: Uint8Array } | { readonly kind: "too-large" };

/** Names and values in turn: what `writeHead` takes without building an object. */
export type Headers = string[];

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body?: Uint8Array | string | undefined;
  /** Takes over the open connection after the headers are out. */
  readonly live?: ((sink: Sink) => void) | undefined;
}

/** The values of a query parameter, decoded; [] when absent. Malformed escapes are left as they are. */
export function queryValues(search: string, name: string): string[] {
  const values: string[] = [];
  if (search === "") return values;
  for (const part of search.split("&")) {
    const at = part.indexOf("=");
    const key = at < 0 ? part : part.slice(0, at);
    if (decode(key) === name) values.push(at < 0 ? "" : decode(part.slice(at + 1)));
  }
  return values;
}

/** The only value of a query parameter. Two of the same name are refused rather than one silently chosen. */
export function queryValue(search: string, name: string): string | undefined {
  const values = queryValues(search, name);
  if (values.length > 1) throw new Refusal("bad-query", `the query parameter ${name} is given ${values.length} times`);
  return values[0];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}
