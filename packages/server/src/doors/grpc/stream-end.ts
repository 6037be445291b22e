/** Why a stream of a subscription ends, as the refusal that its client gets. */
import { Refusal } from "../../core/refusal.ts";
import type { StreamEnd } from "../../pull/contract.ts";

/** Google's clients connect again after UNAVAILABLE, and give up after NOT_FOUND and FAILED_PRECONDITION. */
export function endOf(why: StreamEnd, subscription: string): Refusal {
  switch (why) {
    case "subscription-deleted":
      return new Refusal("subscription-not-found", `there is no subscription ${subscription}`);
    case "detached":
      return new Refusal("subscription-detached", `the subscription ${subscription} is detached from its topic`);
    case "moved":
      return new Refusal("unavailable", "another node serves the subscription now; connect again");
    case "draining":
      return new Refusal("draining", "the server is shutting down; connect again");
  }
}
