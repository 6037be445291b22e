/**
 * The only source of randomness in a simulated run. Every choice (the next event, delays, faults, client actions) is drawn
 * from here.
 *
 * Invariants: the same seed draws the same numbers, so a run can be repeated from its seed alone.
 */
export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = seed | 0;
    // Neighboring seeds start far apart.
    for (let i = 0; i < 4; i++) this.next();
  }

  /** Uniform in [0, 1): a counter, scrambled by multiplications and shifts. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let x = Math.imul(this.state ^ (this.state >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 to `end` - 1. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(list: readonly T[]): T {
    if (list.length === 0) throw new Error("nothing to pick from");
    return list[this.below(list.length)]!;
  }

  /** Picks a name; the chance of each is its share of the sum. */
  weighted<K extends string>(shares: Readonly<Record<K, number>>): K {
    const entries = Object.entries(shares) as [K, number][];
    let left = this.next() * entries.reduce((sum, [, share]) => sum + share, 0);
    for (const [name, share] of entries) {
      left -= share;
      if (left < 0) return name;
    }
    return entries.at(-1)![0];
  }

  /** An independent source, so that drawing more numbers elsewhere changes nothing here. */
  branch(): Random {
    return new Random(Math.floor(this.next() * 2 ** 32));
  }
}
