/**
 * The gate of a program that embeds the server and has rules of its own: a callback decides instead of a JWT. It is asked
 * once for what the address names and once more for every further stream that a header or body names.
 */
import { type Access, type Action, type StreamPattern, topicOf } from "../core/action.ts";
import { type HttpRequest, Refusal } from "../core/http.ts";
import type { TopicFilter } from "../core/topic.ts";
import { prefixesOf } from "./caller.ts";
import { readFilters } from "./claims.ts";
import { unauthenticated } from "./credentials.ts";
import { areWithin, ELSEWHERE, isWithin } from "./decide.ts";
import { type Gate, needsNobody } from "./gate.ts";

/** What a callback may look at; the body is the route's. */
export type AuthorizeRequest = Pick<HttpRequest, "method" | "path" | "search" | "origin" | "header">;

/**
 * `false` is 403, `"unauthenticated"` is 401, and `streams` confines the caller to topic filters. A throw, a rejection or any
 * other value is a fault: the request is refused with 500 and the fault is reported.
 */
export type AuthorizeVerdict = boolean | "unauthenticated" | { readonly streams: readonly string[] };
export type Authorize = (action: Action, request: AuthorizeRequest) => AuthorizeVerdict | PromiseLike<AuthorizeVerdict>;

export class CallbackGate implements Gate {
  constructor(private readonly authorize: Authorize) {}

  admit(action: Action, request: HttpRequest): void | Promise<void> {
    if (needsNobody(action)) return;
    const verdict = this.authorize(action, request);
    if (isLater(verdict)) return Promise.resolve(verdict).then((settled) => this.enter(settled, action, request));
    this.enter(verdict, action, request);
  }

  private enter(verdict: AuthorizeVerdict, action: Action, request: HttpRequest): void {
    const access = new AskedAccess(this.authorize, request, allowed(verdict));
    access.check(action);
    request.access = access;
  }
}

function isLater(verdict: AuthorizeVerdict | PromiseLike<AuthorizeVerdict>): verdict is PromiseLike<AuthorizeVerdict> {
  return typeof (verdict as { then?: unknown } | null | undefined)?.then === "function";
}

class AskedAccess implements Access {
  readonly prefixes: readonly string[] | undefined;

  constructor(
    private readonly authorize: Authorize,
    private readonly request: HttpRequest,
    private readonly filters: readonly TopicFilter[] | undefined,
  ) {
    this.prefixes = filters && prefixesOf(filters);
  }

  get isConfined(): boolean {
    return this.filters !== undefined;
  }

  async demand(action: Action): Promise<void> {
    this.check(action);
    const filters = allowed(await this.authorize(action, this.request));
    new AskedAccess(this.authorize, this.request, filters).check(action);
  }

  /** Whether the action is within the streams that the callback has named. */
  check(action: Action): void {
    const { pattern } = action;
    const topic = topicOf(action);
    const isInside = (topic === undefined || this.sees(topic)) && (pattern === undefined || this.seesAll(pattern));
    if (!isInside) throw new Refusal("forbidden", ELSEWHERE);
  }

  sees(stream: string): boolean {
    return this.filters === undefined || isWithin(this.filters, stream);
  }

  seesAll(pattern: StreamPattern): boolean {
    return this.filters === undefined || areWithin(this.filters, pattern);
  }
}

/** The filters it is confined to; undefined for all. Throws when it is not allowed. */
function allowed(verdict: AuthorizeVerdict): readonly TopicFilter[] | undefined {
  if (verdict === true) return undefined;
  if (verdict === false) throw new Refusal("forbidden", "the server's own rules do not allow this");
  if (verdict === "unauthenticated") throw unauthenticated("the server does not know who you are");
  const filters = readFilters((verdict as { streams?: unknown } | null | undefined)?.streams);
  if (typeof filters === "string") throw new TypeError(`authorize must return a verdict: ${filters}`);
  return filters;
}
