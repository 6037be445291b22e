/**
 * The limits of Live, with their defaults. Compose passes them to the feature. The configuration takes its defaults from here, so
 * that each default exists once.
 */
import { CONNECTION_LIMITS, type ConnectionLimits } from "../core/connection.ts";
import type { KeyLimits } from "./key-rules.ts";
import type { PresenceLimits } from "./presence-rules.ts";

export interface LiveLimits extends ConnectionLimits, KeyLimits, PresenceLimits {
  /** Streams that one session may follow live. */
  readonly subscriptions: number;
  /** A message with a larger payload is announced and not pushed. */
  readonly notifyBytes: number;
  readonly lingerMs: number;
  /** Subscriptions that this node follows for its connections. Beyond it, the least recently used ones are parked. */
  readonly active: number;
  /** The body of a request. */
  readonly bodyBytes: number;
  /** How often a hub looks for connections whose token has ended. */
  readonly checkMs: number;
  /** Clients that must reconnect are asked to spread over this time. */
  readonly spreadMs: number;
  /** Rows that are read at a time, and streams or sessions that are looked at concurrently. */
  readonly pageRows: number;
  readonly batch: number;
  /** How often the roll of a stream is compared with its sessions. */
  readonly reconcileMs: number;
  /** The subscriptions to a deleted stream are removed at once up to this number; beyond it, through the queue. */
  readonly inlineRemovals: number;
}

export const LIVE_LIMITS: LiveLimits = {
  ...CONNECTION_LIMITS,
  lifetimeMs: 3_600_000,
  lingerMs: 10_000,
  subscriptions: 1_000,
  notifyBytes: 64 * 1024,
  active: 500_000,
  bodyBytes: 64 * 1024,
  checkMs: 1_000,
  spreadMs: 5_000,
  pageRows: 1_000,
  batch: 50,
  reconcileMs: 600_000,
  inlineRemovals: 200,
  members: 1_000,
  sweepMs: 60_000,
  keyMs: 24 * 3_600_000,
  tokenMs: 600_000,
};
