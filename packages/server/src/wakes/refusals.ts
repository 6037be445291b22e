/** The refusals of wake subscriptions, and the shape in which clients of the protocol read them. */
import { errors } from "@sluice/protocol";
import { Refusal } from "../core/refusal.ts";

export function absent(id: string): Refusal {
  return new Refusal("subscription-not-found", `there is no subscription ${id}`);
}

export function wrongType(): Refusal {
  return new Refusal("bad-request", "the subscription is of type webhook; this request needs type pull-wake");
}

export function tooManyLinks(max: number): Refusal {
  return new Refusal(
    "too-many-links",
    `a subscription may be linked to at most ${max} streams; use several subscriptions`,
  );
}

export function unproven(
  kind: "absent" | "wrong-type" | "fenced" | "token-expired" | "token-invalid",
  id: string,
): Refusal {
  switch (kind) {
    case "absent":
      return absent(id);
    case "wrong-type":
      return wrongType();
    case "fenced":
      return new Refusal("fenced", "token, generation and wake id do not belong to the current wake; claim again");
    case "token-expired":
      return new Refusal("token-expired", "the token has expired; claim again");
    case "token-invalid":
      return new Refusal("token-invalid", "the token does not belong to this subscription");
  }
}

/**
 * A subscription reveals the streams that it follows, so a confined caller may see only subscriptions within its own
 * streams.
 */
export function outOfReach(id: string): Refusal {
  return new Refusal("forbidden", `the subscription ${id} follows streams outside the token's confinement`);
}

export function alreadyClaimed(holder: string, generation: number): Refusal {
  return new Refusal("already-claimed", `the wake is held by ${holder}; wait for the next one`, {
    current_holder: holder,
    generation,
  });
}

/** The shape that the protocol's clients read. */
export function problemMembers({ code, message, facts }: Refusal): object {
  const { status } = errors[code];
  const isPlainlyBad = status === 400 && code !== "webhook-url-rejected";
  const wireCode = isPlainlyBad ? "INVALID_REQUEST" : code.toUpperCase().replaceAll("-", "_");
  const { current_holder, generation } = facts;
  return { error: { code: wireCode, message, current_holder, generation } };
}
