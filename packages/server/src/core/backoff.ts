/**
 * Exponential backoff with optional jitter, as a pure function. Every retry loop of the server calls it with its own figures.
 *
 * Invariants: the delay doubles with each failure and never exceeds `maxMs` before jitter.
 */
export interface BackoffFigures {
  /** The delay after the first failure. */
  readonly firstMs: number;
  readonly maxMs: number;
  /**
   * A factor drawn evenly from this range multiplies the delay, so that callers that failed together do not retry together.
   * Without it the delay is exact.
   */
  readonly jitter?: readonly [least: number, most: number] | undefined;
}

/** The delay after `failures` in a row; 0 counts as 1. `random` is uniform in [0, 1). */
export function backoffMs(failures: number, { firstMs, maxMs, jitter }: BackoffFigures, random = 0): number {
  // Capped, because 2 ** 1024 is Infinity and 0 * Infinity is NaN. The longest delay a timer takes is 2 ** 31 ms.
  const doublings = Math.min(Math.max(0, failures - 1), 31);
  const ms = Math.min(maxMs, firstMs * 2 ** doublings);
  if (jitter === undefined) return ms;
  const [least, most] = jitter;
  return Math.round(ms * (least + (most - least) * random));
}
