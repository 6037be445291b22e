/**
 * Authorization: the one place that decides whether a caller may do an action, for every door. A pure function of a
 * verified token's claims and a parsed action, which carries its need. `Caller` calls it.
 *
 * Invariants: an action that no rule allows is denied.
 */
import type { ErrorCode } from "@sluice/protocol";
import { type Action, isOpen, type Need, ownTopic, type StreamPattern, topicOf } from "../core/action.ts";
import { SHARD_LEVEL } from "../core/shard-path.ts";
import { coversPattern, matchesFilter, type TopicFilter } from "../core/topic.ts";
import { ADMIN, type Claims, METRICS, READ, WRITE } from "./token-claims.ts";

export interface Denial {
  readonly code: ErrorCode;
  readonly detail: string;
}

/** Undefined if the action is allowed. */
export function decide(claims: Claims, action: Action): Denial | undefined {
  if (isOpen(action)) return undefined;
  if (!suffices(claims.scopes, action.need)) return forbidden(`this needs a token with the scope ${SAID[action.need]}`);
  if (action.project === undefined) {
    return claims.streams === undefined
      ? undefined
      : forbidden("this concerns the whole server, and the token is confined to some streams");
  }
  if (claims.project !== undefined && claims.project !== action.project) {
    return forbidden("the token is for another project");
  }
  if (claims.streams === undefined) return undefined;
  const topic = topicOf(action);
  if (topic !== undefined && !isWithin(claims.streams, topic)) return forbidden(ELSEWHERE);
  if (action.pattern !== undefined && !areWithin(claims.streams, action.pattern)) return forbidden(ELSEWHERE);
  return undefined;
}

export const ELSEWHERE = "the token is confined to other streams";

const SAID: Readonly<Record<Need, string>> = {
  none: "none",
  "own-proof": "of its own kind",
  read: "read",
  write: "write",
  "read-or-write": "read or write",
  "read-and-write": "read and write",
  metrics: "metrics or admin",
  admin: "admin",
};

function suffices(scopes: number, need: Need): boolean {
  if ((scopes & ADMIN) !== 0) return true;
  switch (need) {
    case "read":
      return (scopes & READ) !== 0;
    case "write":
      return (scopes & WRITE) !== 0;
    case "read-or-write":
      return (scopes & (READ | WRITE)) !== 0;
    case "read-and-write":
      return (scopes & (READ | WRITE)) === (READ | WRITE);
    case "metrics":
      return (scopes & METRICS) !== 0;
    default:
      return false;
  }
}

/** A shard is within a filter exactly if its topic is. */
export function isWithin(filters: readonly TopicFilter[], stream: string): boolean {
  const topic = ownTopic(stream);
  for (const filter of filters) if (matchesFilter(filter, topic)) return true;
  return false;
}

/** One filter must cover the pattern alone; filters are not combined. */
export function areWithin(filters: readonly TopicFilter[], { levels }: StreamPattern): boolean {
  // The one-level wildcard excludes shards. A filter that covers the all-levels wildcard covers the topics too.
  const shards = levels.indexOf(`=${SHARD_LEVEL}`);
  const topics = shards > 0 ? levels.slice(0, shards) : levels;
  return filters.some((filter) => coversPattern(filter, topics));
}

function forbidden(detail: string): Denial {
  return { code: "forbidden", detail };
}
