/**
 * What stands between a parsed request and its route: finds out who calls, asks `decide`, and notes on the request what else
 * the caller may do. Every door calls `admit` before it calls a feature.
 *
 * What must stay true: whatever goes wrong, the request is refused; a remembered token is admitted without a promise.
 */
import { header } from "@sluice/protocol";
import type { Action } from "../core/action.ts";
import { type HttpRequest, Refusal } from "../core/http.ts";
import type { Caller } from "./caller.ts";
import { type CookieOrigins, invalid, tokenOf, unauthenticated } from "./credentials.ts";
import { NEEDS } from "./decide.ts";
import { hasKeys } from "./options.ts";
import { ProjectKeys, type ProjectParts, type Verdict } from "./project-keys.ts";

export interface Gate {
  /** Throws, or rejects with, a Refusal unless the caller may do this. */
  admit(action: Action, request: HttpRequest): void | Promise<void>;
}

/** Whether the action is open to everybody, or comes with a proof that its feature checks itself. */
export function needsNobody(action: Action): boolean {
  const need = NEEDS[action.action];
  return need === "none" || need === "own-proof";
}

export interface GateParts extends ProjectParts {
  /** Which origins may use the cookie. */
  readonly cookieOrigins: CookieOrigins;
}

/** Lets those in who show a JWT of the project. */
export class TokenGate implements Gate {
  private readonly projects = new Map<string, ProjectKeys>();

  constructor(private readonly parts: GateParts) {
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

  admit(action: Action, request: HttpRequest): void | Promise<void> {
    if (needsNobody(action)) return;
    const authorization = request.header("authorization");
    const keys = action.project === undefined ? undefined : this.projects.get(action.project);
    const seen = authorization === undefined ? undefined : keys?.justSeen(authorization);
    if (seen !== undefined) return enter(seen, action, request);
    const token = tokenOf(request, this.parts.cookieOrigins);
    if (action.project === undefined) return this.admitAnywhere(action, request, token);
    if (keys === undefined) throw unauthenticated("the project has no keys, so no token opens it");
    const caller = keys.known(token);
    if (caller === undefined) return this.admitNew(keys, action, request, token);
    if (authorization !== undefined) keys.see(authorization, caller);
    enter(caller, action, request);
  }

  private async admitNew(keys: ProjectKeys, action: Action, request: HttpRequest, token: string): Promise<void> {
    enter(this.callerOf(await keys.verify(token)), action, request);
  }

  /** What concerns the whole server takes a token of any project. */
  private async admitAnywhere(action: Action, request: HttpRequest, token: string): Promise<void> {
    let last: Verdict = { kind: "invalid", detail: "the token is not signed with a key of any project" };
    for (const keys of this.projects.values()) {
      const caller = keys.known(token);
      const verdict: Verdict = caller === undefined ? await keys.verify(token) : { kind: "caller", caller };
      if (verdict.kind === "caller") return enter(verdict.caller, action, request);
      // That it has expired, or could not be checked, tells more than that it is not another project's.
      if (verdict.kind !== "invalid") last = verdict;
    }
    this.callerOf(last);
  }

  private callerOf(verdict: Verdict): Caller {
    switch (verdict.kind) {
      case "caller":
        return verdict.caller;
      case "expired":
        throw new Refusal("token-expired", "the token has expired", [
          "WWW-Authenticate",
          'Bearer error="invalid_token"',
        ]);
      case "invalid":
        throw invalid(verdict.detail);
      case "unavailable": {
        const seconds = Math.ceil((verdict.retryAtMs - this.parts.world.now()) / 1_000);
        throw new Refusal("keys-unavailable", "the keys of the project cannot be fetched right now", [
          header.retryAfter,
          String(Math.max(1, seconds)),
        ]);
      }
    }
  }
}

function enter(caller: Caller, action: Action, request: HttpRequest): void {
  caller.demand(action);
  request.access = caller;
}
