/**
 * Which pages of other origins may use the server: the response to a preflight, and the CORS headers of every response.
 * Compose builds both.
 *
 * Invariants: every preflight gets a response. The allowed origins depend on the options. By default none is allowed,
 * except pages of this machine on a server that is for this machine alone.
 */
import { header } from "@sluice/protocol";
import type { Headers, HttpRequest } from "../../core/http.ts";
import { isLoopbackOrigin } from "./page-rule.ts";

export interface CorsOptions {
  /** Scheme, host and port, as browsers send them, or `*` alone for every page. */
  readonly origins: readonly string[];
  /** Whether pages of these origins may send the cookie. */
  readonly credentials: boolean;
  /** How long a browser may cache a preflight's response. */
  readonly maxAgeSeconds: number;
}

export const CORS_DEFAULTS: CorsOptions = { origins: [], credentials: false, maxAgeSeconds: 86_400 };

const ANY = "*";
const METHODS = "GET, HEAD, PUT, POST, DELETE, OPTIONS";

/** `asked`: the headers that pages may send. */
export function preflightHeaders({ maxAgeSeconds }: CorsOptions, asked: readonly string[]): Headers {
  return [
    header.allow,
    METHODS,
    "Access-Control-Allow-Methods",
    METHODS,
    "Access-Control-Allow-Headers",
    asked.join(", "),
    "Access-Control-Max-Age",
    String(maxAgeSeconds),
  ];
}

/**
 * Adds the CORS headers to a response; undefined if no origin is allowed. `told`: the headers that pages may read. `isLocal`:
 * pages of this machine are allowed too, from any port.
 */
export function corsDecorator(
  options: CorsOptions,
  told: readonly string[],
  isLocal: boolean,
): ((request: Pick<HttpRequest, "header">, headers: Headers) => void) | undefined {
  const { origins, credentials } = options;
  if (origins.length === 0 && !isLocal) return undefined;
  const exposed = told.join(", ");
  if (origins.includes(ANY)) {
    return (_, headers) => {
      headers.push("Access-Control-Allow-Origin", ANY, "Access-Control-Expose-Headers", exposed);
    };
  }
  const allowed = new Set(origins);
  return (request, headers) => {
    // A cache must not serve one origin's response to another, so every response varies by Origin.
    headers.push("Vary", "Origin");
    const origin = request.header("origin");
    if (origin === undefined) return;
    const isNamed = allowed.has(origin);
    if (!isNamed && !(isLocal && isLoopbackOrigin(origin))) return;
    headers.push("Access-Control-Allow-Origin", origin, "Access-Control-Expose-Headers", exposed);
    if (credentials && isNamed) headers.push("Access-Control-Allow-Credentials", "true");
  };
}

/**
 * Whether a page of this origin may use its visitor's cookie: the server's own origin, or one that is configured for
 * it.
 */
export function cookieOrigins(options: CorsOptions, publicUrl: string | undefined) {
  const own = publicUrl === undefined ? undefined : new URL(publicUrl).origin;
  const named = new Set(options.credentials ? options.origins : []);
  return (origin: string, request: HttpRequest): boolean =>
    origin === request.origin || origin === own || named.has(origin);
}
