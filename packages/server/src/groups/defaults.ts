/**
 * The limits of groups, with their defaults. Compose passes them to the feature. The configuration takes its defaults from here,
 * so that each default exists once.
 */

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
