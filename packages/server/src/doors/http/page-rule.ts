/**
 * Which Host names the server accepts, and which pages may act on it. A browser runs pages of any origin on the developer's machine,
 * so a loopback address protects nothing by itself: a page can post to it, and DNS rebinding lets a page read from it. The router
 * applies the rule to every request, an upgrade to a WebSocket included, and CORS applies it to every response.
 *
 * Invariants: pure. An IP literal or a loopback name is always accepted as Host, because no name server can rebind it. Requests
 * without Host or Origin come from programs, and pass.
 */
import { hostOf, isAddress, isLoopbackHost, isLoopbackName } from "../../core/address.ts";
import { Refusal } from "../../core/refusal.ts";

export interface PageRule {
  /** Every caller may do everything, and only programs of this machine can connect. Pages are then the only strangers. */
  readonly isLocal: boolean;
  /** Names under which clients reach the server, in lower case, or `*.` and a domain. */
  readonly hosts: readonly string[];
  /** Origins whose pages may use the server, as browsers send them, or `*`. */
  readonly origins: readonly string[];
}

/** What a request says of the page that sent it. */
export interface Approach {
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** Whether the request may change anything. A WebSocket may. */
  readonly isWrite: boolean;
}

export interface PageRuleSettings {
  readonly isLocal: boolean;
  readonly http: { readonly hosts: readonly string[] };
  readonly cors: { readonly origins: readonly string[] };
  readonly publicUrl?: string | undefined;
}

/** Clients also reach the server under its public address, and its own pages come from there. */
export function pageRuleOf({ isLocal, http, cors, publicUrl }: PageRuleSettings): PageRule {
  const hosts = http.hosts.map((name) => name.toLowerCase());
  if (publicUrl === undefined || (!isLocal && hosts.length === 0)) return { isLocal, hosts, origins: cors.origins };
  const url = new URL(publicUrl);
  return { isLocal, hosts: [...hosts, hostOf(url)], origins: [...cors.origins, url.origin] };
}

/** Why the request is refused; undefined if it is not. */
export function refusePage(rule: PageRule, { host, origin, isWrite }: Approach): Refusal | undefined {
  if (host !== undefined && !acceptsHost(rule, host)) {
    const detail =
      `the server is not reached under the Host ${quoted(host)}; address it as localhost or by its IP address, ` +
      "or add the name to http.hosts";
    return new Refusal("host-not-allowed", detail);
  }
  if (!isWrite || origin === undefined || !rule.isLocal || mayWrite(rule, origin, host)) return undefined;
  const advice =
    origin === "null"
      ? "the page is a file or sandboxed; serve it over http from localhost"
      : "add the origin to cors.origins, or serve the page from localhost";
  const detail = `the server asks for no token, so pages of the Origin ${quoted(origin)} may not write; ${advice}`;
  return new Refusal("origin-not-allowed", detail);
}

/** Nearly every request has one of these, and parsing an address costs many times as much. */
const USUAL_HOST = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/;

function acceptsHost({ isLocal, hosts }: PageRule, host: string): boolean {
  if ((!isLocal && hosts.length === 0) || USUAL_HOST.test(host)) return true;
  const name = nameIn(host);
  if (name === undefined) return false;
  if (isLoopbackName(name) || isAddress(name)) return true;
  return hosts.some((allowed) => (allowed.startsWith("*.") ? name.endsWith(allowed.slice(1)) : name === allowed));
}

/** The server's own pages may: their origin is the Host that was accepted before. */
function mayWrite({ origins }: PageRule, origin: string, host: string | undefined): boolean {
  return (
    isLoopbackOrigin(origin) ||
    origins.includes(origin) ||
    origins.includes("*") ||
    (host !== undefined && addressIn(origin) === host.toLowerCase())
  );
}

/** Whether a page comes from this machine, from any port. `null`, the origin of sandboxed pages and files, does not. */
export function isLoopbackOrigin(origin: string): boolean {
  const address = addressIn(origin);
  const name = address === undefined ? undefined : nameIn(address);
  return name !== undefined && isLoopbackHost(name);
}

/** Host and port of a web page's origin. */
function addressIn(origin: string): string | undefined {
  return /^https?:\/\/([^/]+)$/.exec(origin)?.[1];
}

/** The name or address in a Host header, in lower case, without port, brackets and the dot that may end a name. */
function nameIn(host: string): string | undefined {
  const match = /^(?:\[([\da-f:.]+)\]|([^\s:/@[\]]+?)\.?)(?::\d*)?$/i.exec(host);
  return (match?.[1] ?? match?.[2])?.toLowerCase();
}

const MAX_QUOTED_CHARS = 100;

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, MAX_QUOTED_CHARS));
}
