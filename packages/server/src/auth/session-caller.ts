/**
 * A caller with the short-lived token of a session: it may act on that session, and read the streams that the session
 * subscribes to. `SessionTokenIdentity` creates one per request.
 *
 * Invariants: it may never do more than the caller that had the token minted. An action that does not say that a session's token
 * suffices is denied.
 */
import type { Action, Grant } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import { Caller } from "./caller.ts";
import { readFilters, readScopes } from "./token-claims.ts";

/** What a verified session token says. */
export interface SessionProof {
  readonly project: string;
  readonly session: string;
  readonly subject: string | undefined;
  readonly scope: string;
  readonly streams: readonly string[] | undefined;
  /** Epoch ms. */
  readonly untilMs: number;
  /** When the credentials end that the session's first token was minted with; undefined if they do not. */
  readonly credentialsUntilMs: number | undefined;
  /** Whether the session subscribes to this stream now. */
  subscribes(stream: string): Promise<boolean>;
}

export class SessionCaller extends Caller {
  constructor(private readonly proof: SessionProof) {
    const { project, subject, scope, streams, untilMs } = proof;
    const filters = streams === undefined ? undefined : readFilters(streams);
    // The server wrote the token, so a filter that cannot be read is a defect, and must not open every stream.
    if (typeof filters === "string") throw new Error(`a session token carries a bad filter: ${filters}`);
    const claims = { subject, scopes: readScopes(scope), project, streams: filters, expiresAt: untilMs / 1_000 };
    super(claims, untilMs, Number.POSITIVE_INFINITY);
  }

  override get isAdmin(): boolean {
    return false;
  }

  /** A renewed token ends with the credentials that the first one was minted with. */
  override get grant(): Grant {
    return { ...super.grant, untilMs: this.proof.credentialsUntilMs };
  }

  override demand(action: Action): void | Promise<void> {
    super.demand(action);
    const { bySession, session, stream } = action;
    if (bySession === undefined) throw forbidden("the token of a session does not suffice for this");
    if (session !== undefined && session !== this.proof.session) throw forbidden("the token is for another session");
    if (bySession === "session" || session !== undefined || stream === undefined) return;
    return this.demandSubscribed(stream);
  }

  private async demandSubscribed(stream: string): Promise<void> {
    if (!(await this.proof.subscribes(stream))) throw forbidden("the session does not subscribe to this stream");
  }
}

function forbidden(detail: string): Refusal {
  return new Refusal("forbidden", detail, { challenge: "insufficient_scope" });
}
