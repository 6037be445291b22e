/** What the engine on Redis can be told. Every time is a bound on one step; the
 * deadline is looked at between attempts, so the last of them may end after it. */
import type { World } from "../../core/world.ts";
import { ENGINE_BOUNDS, type EngineBounds } from "../bounds.ts";

export interface RedisLimits extends Pick<EngineBounds, "pageMessages"> {
  /** How many replicas must have a commit before it is acknowledged; 0 trusts the master alone. */
  readonly waitReplicas: number;
  /** How long one call may take before its connection is given up. */
  readonly commandMs: number;
  readonly connectMs: number;
  /** How long an operation is tried again, over failovers too, before it is refused as unavailable. */
  readonly deadlineMs: number;
  /** How often what is watched is looked at, in case that a notification was lost. */
  readonly pollMs: number;
}

export const DEFAULT_PREFIX = "sluice";

export const REDIS_LIMITS: RedisLimits = {
  pageMessages: ENGINE_BOUNDS.pageMessages,
  waitReplicas: 0,
  commandMs: 1_500,
  connectMs: 1_000,
  deadlineMs: 8_000,
  pollMs: 5_000,
};

export interface RedisOptions {
  /** Any node of a cluster, or the one Redis that there is: redis://[user:password@]host[:port] or rediss://… */
  readonly urls: readonly string[];
  /** What all keys start with. Services with different ones know nothing of each other. */
  readonly prefix?: string | undefined;
  readonly world: World;
  readonly limits?: Partial<RedisLimits> | undefined;
  /** Hears, once and in words, of what the operator should know of this Redis. */
  readonly warn?: ((text: string) => void) | undefined;
}
