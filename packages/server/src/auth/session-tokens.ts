/**
 * Identifies callers by the short-lived token of a session, and leaves every other caller to the server's own identity. Compose
 * puts it around whichever identity the server has, so these tokens are verified even with auth off.
 *
 * Invariants: a header takes precedence over the URL. An expired or foreign session token is refused, never ignored.
 */
import type { Access } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import { BEARER, type Credentials, type Identity } from "./identity.ts";
import { SessionCaller, type SessionProof } from "./session-caller.ts";

/** The tokens of sessions, signed with keys in the store. */
export interface SessionTokens {
  /** Whether the text claims to be such a token. */
  isOne(token: string): boolean;
  /** Undefined if the token was not signed for this project. */
  verify(project: string, token: string): Promise<SessionProof | undefined>;
}

export class SessionTokenIdentity implements Identity {
  constructor(
    private readonly inner: Identity,
    private readonly tokens: SessionTokens,
    private readonly now: () => number,
  ) {}

  identify(project: string | undefined, credentials: Credentials): Access | Promise<Access> {
    const token = tokenOf(credentials);
    const isSession = token !== undefined && this.tokens.isOne(token);
    return isSession ? this.bySession(project, token) : this.inner.identify(project, credentials);
  }

  private async bySession(project: string | undefined, token: string): Promise<Access> {
    const proof = project === undefined ? undefined : await this.tokens.verify(project, token);
    if (proof === undefined) throw new Refusal("token-invalid", "the token is not signed with a key of this project");
    if (this.now() >= proof.untilMs) {
      throw new Refusal("token-expired", "the token of the session has expired; POST /sessions with its id renews it");
    }
    return new SessionCaller(proof);
  }
}

function tokenOf({ authorization, addressToken }: Credentials): string | undefined {
  if (authorization === undefined) return addressToken;
  return authorization.startsWith(BEARER) ? authorization.slice(BEARER.length).trim() : undefined;
}
