/**
 * The gate of a program that embeds the server and has rules of its own: a callback decides instead of a JWT. It is asked
 * once for what the address names and once more for every further stream that a header or body names.
 */
import { type Access, type Action, ownTopic, type StreamPattern, topicOf } from "../core/action.ts";
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
 * `false` is 403, `"unauthenticated"` is 401. An object allows: `streams` confines the caller to topic filters, `subject` says
 * whose the sessions are that it makes and may use, and `admin` opens those of everybody. `true` is nobody in particular. A throw,
 * a rejection or any other value is a fault: the request is refused with 500 and the fault is reported.
 */
export type AuthorizeVerdict = boolean | "unauthenticated" | Allowance;

export interface Allowance {
  readonly streams?: readonly string[] | undefined;
  readonly subject?: string | undefined;
  readonly admin?: boolean | undefined;
}
export type Authorize = (action: Action, request: AuthorizeRequest) => AuthorizeVerdict | PromiseLike<AuthorizeVerdict>;

export class CallbackGate implements Gate {
  constructor(private readonly authorize: Authorize) {}

  admit(action: Action, request: HttpRequest): void | Promise<void> {
    if (needsNobody(action)) return;
    const verdict = this.authorize(asAsked(action), request);
    if (isLater(verdict)) return Promise.resolve(verdict).then((settled) => this.enter(settled, action, request));
    this.enter(verdict, action, request);
  }

  private enter(verdict: AuthorizeVerdict, action: Action, request: HttpRequest): void {
    const access = new AskedAccess(this.authorize, request, allowed(verdict));
    access.check(action);
    request.access = access;
  }
}

/** Who may use a topic may use its shards, and nobody else: the callback is asked about the topic. */
function asAsked(action: Action): Action {
  const { stream } = action;
  const topic = stream === undefined ? undefined : ownTopic(stream);
  return topic === stream ? action : { ...action, stream: topic };
}

function isLater(verdict: AuthorizeVerdict | PromiseLike<AuthorizeVerdict>): verdict is PromiseLike<AuthorizeVerdict> {
  return typeof (verdict as { then?: unknown } | null | undefined)?.then === "function";
}

class AskedAccess implements Access {
  readonly prefixes: readonly string[] | undefined;
  readonly subject: string | undefined;
  readonly isAdmin: boolean;
  private readonly filters: readonly TopicFilter[] | undefined;

  constructor(
    private readonly authorize: Authorize,
    private readonly request: HttpRequest,
    allowance: Checked,
  ) {
    this.filters = allowance.filters;
    this.subject = allowance.subject;
    this.isAdmin = allowance.admin;
    this.prefixes = this.filters && prefixesOf(this.filters);
  }

  get isConfined(): boolean {
    return this.filters !== undefined;
  }

  async demand(action: Action): Promise<void> {
    this.check(action);
    const verdict = allowed(await this.authorize(asAsked(action), this.request));
    new AskedAccess(this.authorize, this.request, verdict).check(action);
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

interface Checked {
  /** Undefined for all streams. */
  readonly filters: readonly TopicFilter[] | undefined;
  readonly subject: string | undefined;
  readonly admin: boolean;
}

/** Throws when it is not allowed. */
function allowed(verdict: AuthorizeVerdict): Checked {
  if (verdict === true) return { filters: undefined, subject: undefined, admin: false };
  if (verdict === false) throw new Refusal("forbidden", "the server's own rules do not allow this");
  if (verdict === "unauthenticated") throw unauthenticated("the server does not know who you are");
  const wrong = wrongOf(verdict);
  if (wrong !== undefined) throw new TypeError(`authorize must return a verdict: ${wrong}`);
  const { streams, subject, admin = false } = verdict;
  const filters = streams === undefined ? undefined : readFilters(streams);
  if (typeof filters === "string") throw new TypeError(`authorize must return a verdict: ${filters}`);
  return { filters, subject, admin };
}

/** A misspelt name must not allow more than was meant. */
function wrongOf(verdict: unknown): string | undefined {
  if (typeof verdict !== "object" || verdict === null || Array.isArray(verdict))
    return "it is none of those that are known";
  const { streams: _, subject, admin, ...unknown } = verdict as Allowance & Record<string, unknown>;
  const [first] = Object.keys(unknown);
  if (first !== undefined) return `${first} is not known`;
  if (Object.keys(verdict).length === 0) return "it is empty";
  if (subject !== undefined && typeof subject !== "string") return "subject must be a string";
  return admin === undefined || typeof admin === "boolean" ? undefined : "admin must be true or false";
}
