/**
 * A refusal: an entry of the error table, what was wrong, and facts for programs. Services and rules throw it for bad input; each
 * door renders it in its own protocol.
 *
 * Invariants: it knows no status, no header and no protocol. `detail` never quotes a secret; `facts` hold values that every
 * protocol can carry.
 */
import type { ErrorCode } from "@sluice/protocol";

export type Fact = string | number | boolean | readonly string[];

/** Facts by name. A door renders the names that it knows and passes the others on as they are. */
export type Facts = Readonly<Record<string, Fact>>;

export class Refusal extends Error {
  /** How long the caller should wait before it tries again; undefined when the error table alone decides. */
  readonly retryAfterMs: number | undefined;
  readonly facts: Facts;

  constructor(
    readonly code: ErrorCode,
    detail: string,
    { retryAfterMs, ...facts }: Facts & { readonly retryAfterMs?: number } = NO_FACTS,
  ) {
    super(detail);
    this.name = "Refusal";
    this.retryAfterMs = retryAfterMs;
    this.facts = facts;
  }

  /** The same refusal, with more facts. */
  with(facts: Facts): Refusal {
    const { retryAfterMs } = this;
    return new Refusal(this.code, this.message, {
      ...this.facts,
      ...facts,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
  }
}

const NO_FACTS = {};
