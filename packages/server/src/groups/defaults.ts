/**
 * The limits of groups, with their defaults. Compose passes them to the feature. The configuration takes its defaults from here,
 * so that each default exists once.
 */
import { CONNECTION_LIMITS, type ConnectionLimits } from "../core/connection.ts";

/** The timers of the protocol between borrowers and leaders. */
export interface GroupTimers {
  /** How often a borrower without a leader asks for one. */
  readonly findLeaderMs: number;
  readonly pingMs: number;
  /** A borrower whose ping is not answered within this time starts from scratch. */
  readonly pingTimeoutMs: number;
  /** How long an unsubscribing borrower waits for the last acknowledgements. */
  readonly unsubscribeMs: number;
  /** How often a message without an answer is sent again. */
  readonly resendMs: number;
  /** How long the leader collects changes before it assigns streams again. */
  readonly reassignMs: number;
  /** A leader evicts a borrower that it has not heard of for this long. */
  readonly memberTimeoutMs: number;
  /** How long a borrower may finish the messages in flight of a stream that it must give back. */
  readonly drainMs: number;
  /** How long progress waits for more of it before a commit. */
  readonly progressMs: number;
  /** A leader without members releases its group after this time. */
  readonly idleMs: number;
}

/**
 * How long a borrower may act for a leader that it does not hear any more. A leader that may have had a predecessor waits for
 * this long before its first grant, so that no stream is delivered under two leaders.
 */
export function graceMs({ pingMs, pingTimeoutMs }: GroupTimers): number {
  return pingMs + pingTimeoutMs;
}

export const GROUP_TIMERS: GroupTimers = {
  findLeaderMs: 1_000,
  pingMs: 500,
  pingTimeoutMs: 1_500,
  unsubscribeMs: 10_000,
  resendMs: 500,
  reassignMs: 100,
  memberTimeoutMs: 6_000,
  drainMs: 10_000,
  progressMs: 5,
  idleMs: 60_000,
};

export interface GroupLimits extends GroupTimers, ConnectionLimits {
  readonly lingerMs: number;
  /** Subscriptions of one connection. */
  readonly subscriptions: number;
  /** The body of a request. */
  readonly bodyBytes: number;
  /** Clients that must reconnect are asked to spread over this time. */
  readonly spreadMs: number;
  /** How long a leader's claim stands without a renewal. Another node replaces a dead leader after that. */
  readonly claimMs: number;
  readonly claimRetryMs: number;
  /** Messages in flight that a member asks for if it says nothing, and the most that it may ask for. */
  readonly credit: number;
  readonly maxCredit: number;
  /** The most bytes that are read of a stream at a time. */
  readonly readBytes: number;
  /** The wait before a failed read is repeated. */
  readonly retryMs: number;
  /** How often the streams of a project are listed again for its groups. */
  readonly relistMs: number;
  readonly pagePaths: number;
  readonly pageRows: number;
  readonly batch: number;
  /** How often a leader looks whether its group was moved or deleted. */
  readonly checkMs: number;
  /** Of a queue: how long a message is leased, unless its group says otherwise. */
  readonly leaseMs: number;
  /** Hints of created streams are collected for this long. */
  readonly hintMs: number;
  /** How long a node waits for the leader on another node to tell what it knows. */
  readonly askMs: number;
  /** The pace at which a node looks how far its groups are behind: so many streams per step. */
  readonly surveyMs: number;
  readonly surveyStreams: number;
}

export const GROUP_LIMITS: GroupLimits = {
  ...CONNECTION_LIMITS,
  lifetimeMs: 24 * 3_600_000,
  lingerMs: 10_000,
  subscriptions: 100,
  bodyBytes: 64 * 1024,
  spreadMs: 5_000,
  ...GROUP_TIMERS,
  claimMs: 5_000,
  claimRetryMs: 100,
  credit: 100,
  maxCredit: 10_000,
  readBytes: 64 * 1024,
  retryMs: 250,
  relistMs: 60_000,
  pagePaths: 10_000,
  pageRows: 1_000,
  batch: 50,
  checkMs: 1_000,
  leaseMs: 30_000,
  hintMs: 20,
  askMs: 1_000,
  surveyMs: 1_000,
  surveyStreams: 200,
};
