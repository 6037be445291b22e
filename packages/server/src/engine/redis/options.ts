/**
 * The options of the Redis engine, with their defaults; the configuration takes its own from here. Every time bounds one step;
 * the deadline bounds all steps of an operation together.
 */
import type { World } from "../../core/world.ts";
import { ENGINE_BOUNDS, type EngineBounds } from "../bounds.ts";

export interface RedisLimits extends Pick<EngineBounds, "pageMessages"> {
  /** How many replicas must have a commit before it is acknowledged; 0 trusts the master alone. */
  readonly waitReplicas: number;
  /** How long one call may take before its connection is given up. */
  readonly commandMs: number;
  readonly connectMs: number;
  /** When an operation, and its request, is refused as unavailable, whatever its outcome. */
  readonly deadlineMs: number;
  /** The wait before the next attempt: at first, and at most. */
  readonly retryMs: number;
  readonly retryMaxMs: number;
  /** How long after a refused write the engine reports that it accepts none. */
  readonly refusalMs: number;
  /** How often the engine asks the cluster which master has which slot. */
  readonly refreshMs: number;
  /** Bytes that may be unanswered on one connection, and bytes that may wait behind them. */
  readonly flyingBytes: number;
  readonly waitingBytes: number;
  /** How often watched entities are compared with Redis, in case a notification was lost, and how many per command. */
  readonly pollMs: number;
  readonly pollBatch: number;
  /** A node that has lost this often in a row gets a turn of this length; other nodes check this often whether it is over. */
  readonly turnLosses: number;
  readonly turnMs: number;
  readonly turnLookMs: number;
  /** After this many undisturbed commits in a row, the short form of a commit is tried again. */
  readonly calmCommits: number;
  /** The number of entities for which this node remembers that other nodes write to them, or that a commit was abandoned. */
  readonly remembered: number;
  /** How long the best estimate of the masters' clock is used. */
  readonly clockMs: number;
  /** How long Redis remembers the last state of a destroyed or owned entity, and which commits a node made. */
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
  /** Any node of a cluster, or the single Redis: redis://[user:password@]host[:port] or rediss://… */
  readonly urls: readonly string[];
  /** The prefix of all keys. Services with different prefixes do not see each other. */
  readonly prefix?: string | undefined;
  readonly world: World;
  readonly limits?: Partial<RedisLimits> | undefined;
  /** Receives warnings about this Redis for the operator, each once. */
  readonly warn?: ((text: string) => void) | undefined;
}
