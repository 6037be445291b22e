/**
 * Authentication: turns the credentials of a request into the caller's Access. Every door calls `identify`, then
 * `access.demand(action)`; neither depends on HTTP.
 *
 * Invariants: every failure refuses the caller. A recently seen caller is identified without a promise.
 */
import { type Access, FULL_ACCESS } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import type { Caller } from "./caller.ts";
import { hasKeys } from "./options.ts";
import { ProjectKeys, type ProjectParts, type Verdict } from "./project-keys.ts";

/** What an embedding program's callback may read; the body belongs to the route. */
export interface AuthorizeRequest {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly origin: string;
  header(name: string): string | undefined;
}

/** The credentials of a caller, whichever door it uses. */
export interface Credentials {
  /** `Authorization: Bearer …`, or its equivalent in another protocol. */
  readonly authorization: string | undefined;
  /** Reading it throws a Refusal if the request must not use its cookie. */
  readonly cookieToken: string | undefined;
  /** A token in the URL, where a browser cannot set a header. Only a session token is accepted there. */
  readonly addressToken: string | undefined;
  readonly request: AuthorizeRequest;
}

export interface Identity {
  /** `project` is undefined for requests about the whole server. Throws, or rejects with, a Refusal. */
  identify(project: string | undefined, credentials: Credentials): Access | Promise<Access>;
}

/** Allows every caller everything. */
export class OpenIdentity implements Identity {
  identify(_project: string | undefined, credentials: Credentials): Access {
    refuseInAddress(credentials);
    return FULL_ACCESS;
  }
}

/** URLs end up in logs and histories, so only the short-lived token of a session is accepted in one (session-tokens.ts). */
function refuseInAddress({ authorization, addressToken }: Credentials): void {
  if (authorization !== undefined || addressToken === undefined) return;
  const detail = "a token in the address must be a session token; send this one as Authorization: Bearer";
  throw new Refusal("token-invalid", detail);
}

/** Identifies callers by a JWT of their project. */
export class TokenIdentity implements Identity {
  private readonly projects = new Map<string, ProjectKeys>();

  constructor(private readonly parts: ProjectParts) {
    for (const [project, keys] of Object.entries(parts.settings.projects)) {
      if (hasKeys(keys)) this.projects.set(project, new ProjectKeys(project, keys, parts));
    }
  }

  /** Tokens that are remembered, in all projects. */
  get remembered(): number {
    let sum = 0;
    for (const keys of this.projects.values()) sum += keys.size;
    return sum;
  }

  identify(project: string | undefined, credentials: Credentials): Access | Promise<Access> {
    const { authorization } = credentials;
    const keys = project === undefined ? undefined : this.projects.get(project);
    const seen = authorization === undefined ? undefined : keys?.justSeen(authorization);
    if (seen !== undefined) return seen;
    refuseInAddress(credentials);
    const token = authorization === undefined ? credentials.cookieToken : bearerOf(authorization);
    if (token === undefined) {
      throw new Refusal("unauthenticated", "a token is needed: Authorization: Bearer and a JWT");
    }
    if (project === undefined) return this.identifyAnywhere(token);
    if (keys === undefined)
      throw new Refusal(
        "unauthenticated",
        "the project has no keys, so no token is accepted; configure a secret or a key set for it",
      );
    const caller = keys.known(token);
    if (caller === undefined) return keys.verify(token).then((verdict) => this.callerOf(verdict));
    if (authorization !== undefined) keys.see(authorization, caller);
    return caller;
  }

  /** A request about the whole server accepts a token of any project. */
  private async identifyAnywhere(token: string): Promise<Access> {
    let last: Verdict = { kind: "invalid", detail: "the token is not signed with a key of any project" };
    for (const keys of this.projects.values()) {
      const caller = keys.known(token);
      const verdict: Verdict = caller === undefined ? await keys.verify(token) : { kind: "caller", caller };
      if (verdict.kind === "caller") return verdict.caller;
      // An expired token, or one that could not be checked, is reported in preference to a foreign one.
      if (verdict.kind !== "invalid") last = verdict;
    }
    return this.callerOf(last);
  }

  private callerOf(verdict: Verdict): Caller {
    switch (verdict.kind) {
      case "caller":
        return verdict.caller;
      case "expired":
        throw new Refusal("token-expired", "the token has expired; get a new one");
      case "invalid":
        throw new Refusal("token-invalid", verdict.detail);
      case "unavailable": {
        const retryAfterMs = verdict.retryAtMs - this.parts.world.monotonicMs();
        throw new Refusal("keys-unavailable", "the keys of the project cannot be fetched now; retry later", {
          retryAfterMs,
        });
      }
    }
  }
}

export const BEARER = "Bearer ";

function bearerOf(authorization: string): string {
  const isPlain = authorization.startsWith(BEARER) && !authorization.includes(" ", BEARER.length);
  if (isPlain) return authorization.slice(BEARER.length);
  const match = /^bearer +(\S+) *$/i.exec(authorization);
  if (match) return match[1]!;
  throw new Refusal("token-invalid", "Authorization must be Bearer and a token");
}
