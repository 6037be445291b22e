/**
 * The identity of a program that embeds the server and has rules of its own: a callback decides instead of a JWT.
 * Compose chooses it. The callback is called once for what the address names, and once for every further stream in a
 * header or body.
 *
 * Invariants: a callback that throws, rejects or returns an unknown value allows nothing.
 */
import { type Access, type Action, type Grant, ownTopic, type StreamPattern, topicOf } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import { filterText, type TopicFilter } from "../core/topic.ts";
import { prefixesOf } from "./caller.ts";
import type { AuthorizeRequest, Credentials, Identity } from "./identity.ts";
import { areWithin, ELSEWHERE, isWithin } from "./permissions.ts";
import { readFilters } from "./token-claims.ts";

/**
 * `false` is 403, `"unauthenticated"` is 401. An object allows: `streams` confines the caller to topic filters; `subject` owns
 * the sessions that the caller creates and may use; `admin` opens the sessions of all subjects.
 * `true` allows an anonymous caller. A throw, a rejection or any other value is a fault: the request is refused with
 * 500 and the fault is reported.
 */
export type AuthorizeVerdict = boolean | "unauthenticated" | Allowance;

export interface Allowance {
  readonly streams?: readonly string[] | undefined;
  readonly subject?: string | undefined;
  readonly admin?: boolean | undefined;
}
export type Authorize = (action: Action, request: AuthorizeRequest) => AuthorizeVerdict | PromiseLike<AuthorizeVerdict>;

export class CallbackIdentity implements Identity {
  constructor(private readonly authorize: Authorize) {}

  identify(_project: string | undefined, { request }: Credentials): Access {
    return new AskedAccess(this.authorize, request);
  }
}

/** The callback is called with a shard's topic, because access to a topic is access to its shards. */
function asAsked({ action, need, project, stream, pattern, subscription, channel, session, group }: Action): Action {
  const topic = stream === undefined ? undefined : ownTopic(stream);
  return { action, need, project, stream: topic, pattern, subscription, channel, session, group };
}

function isLater(verdict: AuthorizeVerdict | PromiseLike<AuthorizeVerdict>): verdict is PromiseLike<AuthorizeVerdict> {
  return typeof (verdict as { then?: unknown } | null | undefined)?.then === "function";
}

/** The first verdict identifies the caller; later ones only allow or refuse. */
class AskedAccess implements Access {
  private known: Checked | undefined;
  prefixes: readonly string[] | undefined = undefined;

  constructor(
    private readonly authorize: Authorize,
    private readonly request: AuthorizeRequest,
  ) {}

  get subject(): string | undefined {
    return this.known?.subject;
  }

  get isAdmin(): boolean {
    return this.known?.admin ?? false;
  }

  /** The callback is asked again about every stream, so the scope confines nothing more. */
  get grant(): Grant {
    return { scope: "read write", streams: this.known?.filters?.map(filterText), untilMs: undefined };
  }

  get isConfined(): boolean {
    return this.known?.filters !== undefined;
  }

  demand(action: Action): void | Promise<void> {
    if (this.known !== undefined) check(action, this.known.filters);
    const verdict = this.authorize(asAsked(action), this.request);
    if (isLater(verdict)) return Promise.resolve(verdict).then((settled) => this.settle(action, settled));
    this.settle(action, verdict);
  }

  private settle(action: Action, verdict: AuthorizeVerdict): void {
    const allowance = allowed(verdict);
    check(action, allowance.filters);
    if (this.known !== undefined) return;
    this.known = allowance;
    this.prefixes = allowance.filters && prefixesOf(allowance.filters);
  }

  sees(stream: string): boolean {
    return sees(this.known?.filters, stream);
  }

  seesAll(pattern: StreamPattern): boolean {
    return seesAll(this.known?.filters, pattern);
  }
}

/** Throws a Refusal unless the action is within the streams that the callback has named. */
function check(action: Action, filters: readonly TopicFilter[] | undefined): void {
  const { pattern } = action;
  const topic = topicOf(action);
  const isInside =
    (topic === undefined || sees(filters, topic)) && (pattern === undefined || seesAll(filters, pattern));
  if (!isInside) throw new Refusal("forbidden", ELSEWHERE);
}

function sees(filters: readonly TopicFilter[] | undefined, stream: string): boolean {
  return filters === undefined || isWithin(filters, stream);
}

function seesAll(filters: readonly TopicFilter[] | undefined, pattern: StreamPattern): boolean {
  return filters === undefined || areWithin(filters, pattern);
}

interface Checked {
  /** Undefined for all streams. */
  readonly filters: readonly TopicFilter[] | undefined;
  readonly subject: string | undefined;
  readonly admin: boolean;
}

/** Throws unless the verdict allows the action. */
function allowed(verdict: AuthorizeVerdict): Checked {
  if (verdict === true) return { filters: undefined, subject: undefined, admin: false };
  if (verdict === false) throw new Refusal("forbidden", "the program that runs this server does not allow this");
  if (verdict === "unauthenticated")
    throw new Refusal("unauthenticated", "the program that runs this server did not recognize the caller");
  const wrong = wrongOf(verdict);
  if (wrong !== undefined) throw new TypeError(`authorize must return a verdict: ${wrong}`);
  const { streams, subject, admin = false } = verdict;
  const filters = streams === undefined ? undefined : readFilters(streams);
  if (typeof filters === "string") throw new TypeError(`authorize must return a verdict: ${filters}`);
  return { filters, subject, admin };
}

/** Unknown members are refused, because a misspelled name must not allow more than was meant. */
function wrongOf(verdict: unknown): string | undefined {
  if (typeof verdict !== "object" || verdict === null || Array.isArray(verdict))
    return 'it must be true, false, "unauthenticated" or an object';
  const { streams: _, subject, admin, ...unknown } = verdict as Allowance & Record<string, unknown>;
  const [first] = Object.keys(unknown);
  if (first !== undefined) return `${first} is not known`;
  if (Object.keys(verdict).length === 0) return "it is empty";
  if (subject !== undefined && typeof subject !== "string") return "subject must be a string";
  return admin === undefined || typeof admin === "boolean" ? undefined : "admin must be true or false";
}
