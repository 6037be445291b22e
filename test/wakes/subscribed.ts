/**
 * A wake subscription as its rules see it, for their unit tests: two linked streams, and a wake in the state that the test needs.
 */
import { formatOffset } from "@sluice/protocol";
import { WAKE_LIMITS } from "../../packages/server/src/wakes/defaults.ts";
import {
  linkTable,
  metaTable,
  type State,
  stateTable,
  type Tail,
  type Wake,
} from "../../packages/server/src/wakes/state.ts";
import { RuleView } from "../support/rule-view.ts";

export const LIMITS = { ...WAKE_LIMITS, tokenMs: 9_000, lostAttemptMs: 200, retryMs: 100, maxRetryMs: 800 };
export const LEASE_MS = 1_000;
export const FRESH = { wakeId: "w2", secret: "s2" };
export const position = (seq: number) => ({ generation: 1, seq });
export const offset = (seq: number) => formatOffset(position(seq));
export const tail = (path: string, seq: number): Tail => ({ path, tail: position(seq) });
/** A wake as a webhook's receiver or a worker holds it: told, under a lease, with a token. */
export const HELD: Wake = { id: "w1", generation: 1, trigger: "a", secret: "s1", tokenUntil: 9_000, leaseUntil: 1_000 };
/** A wake whose first notification is on its way. */
export const TOLD: Wake = {
  id: "w1",
  generation: 1,
  trigger: "a",
  secret: "s1",
  tokenUntil: 9_000,
  attempt: { number: 1, nextAt: 200 },
};

/** A subscription whose streams "a" and "b" are acknowledged up to 5. */
export function subscribed(type: "webhook" | "pull-wake", wake?: Wake, state: Partial<State> = {}): RuleView {
  const view = new RuleView();
  const config = { type, streams: ["a", "b"], leaseMs: LEASE_MS };
  view.with(metaTable, "", { config, createdAt: 0, incarnation: "i", base: "http://a" });
  view.with(stateTable, "", {
    generation: wake?.generation ?? 0,
    links: 2,
    status: "active",
    failures: 0,
    wake,
    ...state,
  });
  for (const path of ["a", "b"]) view.with(linkTable, path, { acked: offset(5), explicit: true, glob: false });
  return view;
}
export const stateOf = (view: RuleView) => view.get(stateTable, "")!;
export const linkOf = (view: RuleView, path = "a") => view.get(linkTable, path)!;
