/**
 * A histogram that is cheap to add to: fixed bounds, one counter per bucket. Parts that measure sizes or times keep one;
 * `observe` reads it for each scrape.
 *
 * Invariants: counts only grow.
 */
export class Tally {
  /**
   * Per bucket, not cumulative: values above the previous bound and up to this one. The last bucket counts all greater values.
   */
  readonly counts: number[];
  sum = 0;

  constructor(readonly bounds: readonly number[]) {
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  add(value: number): void {
    const { bounds, counts } = this;
    let i = 0;
    // Most values are small and end the walk early; a search would cost more.
    while (i < bounds.length && value > bounds[i]!) i++;
    counts[i]!++;
    this.sum += value;
  }

  get count(): number {
    return this.counts.reduce((total, count) => total + count, 0);
  }
}

/** Bounds in seconds, from a tenth of a millisecond to ten seconds. */
export const SECONDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
/** Bounds for sizes of batches. */
export const SIZES: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
