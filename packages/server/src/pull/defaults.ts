/**
 * The limits of pull, with their defaults. Compose passes them to the feature. The configuration takes its defaults from here, so
 * that each default exists once.
 */
import { CONNECTION_LIMITS, type ConnectionLimits } from "../core/connection.ts";
import type { SubscriptionOptions } from "./contract.ts";

export interface PullLimits extends ConnectionLimits {
  readonly lingerMs: number;
  /** Clients that must reconnect are asked to spread over this time. */
  readonly spreadMs: number;
  /** The largest body of a publish over HTTP. */
  readonly publishBytes: number;
  /** Frames of one connection that are worked on at a time. */
  readonly openFrames: number;
  /** Open streams of one connection. */
  readonly streams: number;
  /** Delivered messages and bytes of one connection that are not answered, if the client sets no lower limit. */
  readonly outstandingMessages: number;
  readonly outstandingBytes: number;
  /** Subscriptions and snapshots on one page of a list. */
  readonly pageItems: number;
  /** How long a dispatcher's claim stands without a renewal. Another node replaces a dead dispatcher after that. */
  readonly claimMs: number;
  readonly claimRetryMs: number;
  /** How long a request waits for the node that serves its subscription. */
  readonly findMs: number;
  /** A dispatcher without streams and leases gives its subscription up after this time. */
  readonly idleMs: number;
  /** The most bytes that are read of a log at a time, and kept of messages that were read and not leased. */
  readonly readBytes: number;
  readonly cacheBytes: number;
  /** Messages that are read ahead while those before them wait for their ordering keys. */
  readonly aheadMessages: number;
  /** Messages that are leased in one turn of the event loop. */
  readonly turnMessages: number;
  /** The wait before a failed read or commit is repeated. */
  readonly retryMs: number;
  readonly pageRows: number;
  /** How often a dispatcher looks whether its subscription was changed on another node. */
  readonly checkMs: number;
  /** How late the end of a lease may be noticed. */
  readonly tickMs: number;
  /** The longest wait of a pull for a first message. */
  readonly pullWaitMs: number;
  /** How often nodes repeat what the other has not confirmed, and after which silence they give each other up. */
  readonly resendMs: number;
  readonly silentMs: number;
  /** How long a snapshot is kept. */
  readonly snapshotMs: number;
}

export const PULL_LIMITS: PullLimits = {
  ...CONNECTION_LIMITS,
  lifetimeMs: 24 * 3_600_000,
  lingerMs: 10_000,
  spreadMs: 5_000,
  publishBytes: 16 * 1_024 * 1_024,
  openFrames: 100,
  streams: 100,
  outstandingMessages: 10_000,
  outstandingBytes: 1_024 * 1_024 * 1_024,
  pageItems: 1_000,
  claimMs: 5_000,
  claimRetryMs: 100,
  findMs: 10_000,
  idleMs: 60_000,
  readBytes: 256 * 1_024,
  cacheBytes: 8 * 1_024 * 1_024,
  aheadMessages: 100_000,
  turnMessages: 1_000,
  retryMs: 250,
  pageRows: 1_000,
  checkMs: 1_000,
  tickMs: 20,
  pullWaitMs: 60_000,
  resendMs: 500,
  silentMs: 5_000,
  snapshotMs: 7 * 24 * 3_600_000,
};

export const MIN_ACK_DEADLINE_MS = 1_000;
export const MAX_ACK_DEADLINE_MS = 600_000;

export const SUBSCRIPTION_DEFAULTS: SubscriptionOptions = {
  ackDeadlineMs: 10_000,
  isOrdered: false,
  isExactlyOnce: false,
  retainsAcked: false,
  deduplicates: false,
  isPaused: false,
};
