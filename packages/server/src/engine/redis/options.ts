/**
 * What the engine on Redis can be told, with the defaults; the configuration takes its own from here. Every time is a bound on one
 * step, and the deadline one on all steps of an operation together.
 */
import type { World } from "../../core/world.ts";
import { ENGINE_BOUNDS, type EngineBounds } from "../bounds.ts";

export interface RedisLimits extends Pick<EngineBounds, "pageMessages"> {
  /** How many replicas must have a commit before it is acknowledged; 0 trusts the master alone. */
  readonly waitReplicas: number;
  /** How long one call may take before its connection is given up. */
  readonly commandMs: number;
  readonly connectMs: number;
  /** When an operation is refused as unavailable, whatever has become of it, and a request with it. */
  readonly deadlineMs: number;
  /** How long to wait before the next attempt: at first, and at most. */
  readonly retryMs: number;
  readonly retryMaxMs: number;
  /** How long after a write that was refused no write counts as accepted. */
  readonly refusalMs: number;
  /** How often the cluster is asked which master has what. */
  readonly refreshMs: number;
  /** What may be unanswered on one connection, and what may wait behind it. */
  readonly flyingBytes: number;
  readonly waitingBytes: number;
  /** How often watched entities are compared with Redis, in case that a notification was lost, and how many in one command. */
  readonly pollMs: number;
  readonly pollBatch: number;
  /** Who has lost this often in a row to other nodes gets a turn this long; the others look this often whether it is over. */
  readonly turnLosses: number;
  readonly turnMs: number;
  readonly turnLookMs: number;
  /** After this many commits in a row that no other node disturbed, the quick way is tried again. */
  readonly calmCommits: number;
  /** For how many entities it is remembered that others write to them too, or that a commit was given up. */
  readonly remembered: number;
  /** How long the best estimate of the masters' clock is believed. */
  readonly clockMs: number;
  /** How long Redis remembers what an entity was when it was destroyed or owned, and which commits a node made. */
  readonly tombstoneSeconds: number;
  readonly writerSeconds: number;
}

export const DEFAULT_PREFIX = "sluice";

export const REDIS_LIMITS: RedisLimits = {
  pageMessages: ENGINE_BOUNDS.pageMessages,
  waitReplicas: 0,
  commandMs: 1_500,
  connectMs: 1_000,
  deadlineMs: 8_000,
  retryMs: 20,
  retryMaxMs: 250,
  refusalMs: 5_000,
  refreshMs: 1_000,
  flyingBytes: 32 * 1024 * 1024,
  waitingBytes: 256 * 1024 * 1024,
  pollMs: 5_000,
  pollBatch: 500,
  turnLosses: 4,
  turnMs: 100,
  turnLookMs: 2,
  calmCommits: 4,
  remembered: 10_000,
  clockMs: 10_000,
  tombstoneSeconds: 86_400,
  writerSeconds: 3_600,
};

export interface RedisOptions {
  /** Any node of a cluster, or the one Redis that there is: redis://[user:password@]host[:port] or rediss://… */
  readonly urls: readonly string[];
  /** What all keys start with. Services with different ones know nothing of each other. */
  readonly prefix?: string | undefined;
  readonly world: World;
  /** Ms from any moment on, to measure with; the world's clock when nothing finer is given. */
  readonly clock?: (() => number) | undefined;
  readonly limits?: Partial<RedisLimits> | undefined;
  /** Hears, once and in words, of what the operator should know of this Redis. */
  readonly warn?: ((text: string) => void) | undefined;
}
