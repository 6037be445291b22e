/** The refusals of the wake routes, and how they look: a problem like every other, with the protocol's own shape beside it. */
import { type ErrorCode, errors, header, problem } from "@sluice/protocol";
import { type Headers, Refusal, type Reply } from "../core/http.ts";
import { EngineError } from "../engine/contract.ts";

/** A refusal with more to tell than its text. */
class WakeRefusal extends Refusal {
  constructor(
    code: ErrorCode,
    detail: string,
    readonly more: Readonly<Record<string, unknown>>,
  ) {
    super(code, detail);
  }
}

export function absent(id: string): Refusal {
  return new Refusal("subscription-not-found", `there is no subscription ${id}`);
}

export function wrongType(): Refusal {
  return new Refusal("bad-request", "the subscription is not of type pull-wake");
}

export function tooMany(kind: "too-many-links" | "too-many-subscriptions", maxLinks: number): Refusal {
  if (kind === "too-many-links")
    return new Refusal("too-many-links", `a subscription is linked to at most ${maxLinks} streams`);
  return new Refusal("overloaded", "this server has as many subscriptions as it takes on");
}

export function unproven(
  kind: "absent" | "wrong-type" | "fenced" | "token-expired" | "token-invalid",
  id: string,
): Refusal {
  const challenge: Headers = ["WWW-Authenticate", 'Bearer error="invalid_token"'];
  switch (kind) {
    case "absent":
      return absent(id);
    case "wrong-type":
      return wrongType();
    case "fenced":
      return new Refusal("fenced", "token, generation and wake id are not those of the current wake");
    case "token-expired":
      return new Refusal("token-expired", "the token has expired", challenge);
    case "token-invalid":
      return new Refusal("token-invalid", "the token is not one of this subscription", challenge);
  }
}

/** What a subscription follows is told to whoever may look at it. */
export function outOfReach(id: string): Refusal {
  return new Refusal("forbidden", `the subscription ${id} follows streams that the token is not confined to`);
}

export function alreadyClaimed(holder: string, generation: number): Refusal {
  return new WakeRefusal("already-claimed", `the wake is held by ${holder}`, { current_holder: holder, generation });
}

/** The problem of the error table, with the shape that the protocol's clients look for beside it. */
export function renderRefusal(fault: unknown): Reply | undefined {
  const isOurs = fault instanceof Refusal || (fault instanceof EngineError && fault.code !== "data-damaged");
  if (!isOurs) return undefined;
  const { code, message } = fault;
  const { status } = errors[code];
  const isPlainlyBad = status === 400 && code !== "webhook-url-rejected";
  const wireCode = isPlainlyBad ? "INVALID_REQUEST" : code.toUpperCase().replaceAll("-", "_");
  const more = fault instanceof WakeRefusal ? fault.more : {};
  const headers: Headers = [header.contentType, "application/problem+json", header.cacheControl, "no-store"];
  if (fault instanceof Refusal) headers.push(...fault.headers);
  if (status === 503 && !headers.includes(header.retryAfter)) headers.push(header.retryAfter, "1");
  return {
    status,
    headers,
    body: JSON.stringify({ ...problem(code, message), error: { code: wireCode, message, ...more } }),
  };
}
