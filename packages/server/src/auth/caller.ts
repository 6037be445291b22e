/**
 * A caller whose token was verified. `ProjectKeys` creates one per token and keeps it with the remembered token;
 * services receive it as their Access.
 *
 * Invariants: all requests with the same token share it, so it holds nothing of a request.
 */
import type { Access, Action, Grant, StreamPattern } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import { filterText, type TopicFilter } from "../core/topic.ts";
import { areWithin, type Denial, decide, isWithin } from "./permissions.ts";
import { ADMIN, type Claims, grantedScope } from "./token-claims.ts";

export class Caller implements Access {
  readonly prefixes: readonly string[] | undefined;

  constructor(
    readonly claims: Claims,
    /** When the token ends. Epoch ms, by the machine's clock, as the token says. */
    readonly endsAtMs: number,
    /** Until when the keys that verified it need no other look, by the monotonic clock. */
    readonly keysFreshUntilMs: number,
  ) {
    this.prefixes = claims.streams && prefixesOf(claims.streams);
  }

  get subject(): string | undefined {
    return this.claims.subject;
  }

  get isAdmin(): boolean {
    return (this.claims.scopes & ADMIN) !== 0;
  }

  /** By the token alone, because its keys are checked again at every request. A request is taken until then too. */
  get untilMs(): number {
    return this.endsAtMs;
  }

  get grant(): Grant {
    const { scopes, streams, expiresAt } = this.claims;
    return { scope: grantedScope(scopes), streams: streams?.map(filterText), untilMs: expiresAt * 1_000 };
  }

  get isConfined(): boolean {
    return this.claims.streams !== undefined;
  }

  demand(action: Action): void | Promise<void> {
    const denial = decide(this.claims, action);
    if (denial !== undefined) throw refusalOf(denial);
  }

  sees(stream: string): boolean {
    const { streams } = this.claims;
    return streams === undefined || isWithin(streams, stream);
  }

  seesAll(pattern: StreamPattern): boolean {
    const { streams } = this.claims;
    return streams === undefined || areWithin(streams, pattern);
  }
}

/** Without prefixes that start with another one, so that no stream is listed twice. */
export function prefixesOf(filters: readonly TopicFilter[]): readonly string[] {
  const all = [...new Set(filters.map(({ literalPrefix }) => literalPrefix))];
  return all.filter((prefix) => !all.some((other) => other !== prefix && prefix.startsWith(other)));
}

export function refusalOf({ code, detail }: Denial): Refusal {
  return new Refusal(code, detail, { challenge: "insufficient_scope" });
}
