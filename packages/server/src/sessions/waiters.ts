/** The publishes that wait for the copies of what they appended, and what they are told. A source has one. */
import { comparePositions, type Position } from "@sluice/protocol";

/** How the copies of a publish went. */
export interface Tally {
  readonly count: number;
  readonly successes: number;
  /** Whoever has got no copy and is not gone, laggards included. */
  readonly failures: number;
  /** Of these, those that were tried. */
  readonly failed: number;
}

export const NOBODY: Tally = { count: 0, successes: 0, failures: 0, failed: 0 };

export interface Waiter {
  readonly through: Position;
  readonly resolve: (tally: Tally) => void;
}

export class Waiters {
  private waiting: Waiter[] = [];

  get size(): number {
    return this.waiting.length;
  }

  get all(): readonly Waiter[] {
    return [...this.waiting];
  }

  add(through: Position): Promise<Tally> {
    return new Promise((resolve) => void this.waiting.push({ through, resolve }));
  }

  /** Those who wait for something up to there; they wait no longer. */
  take(through: Position): readonly Waiter[] {
    const taken = this.waiting.filter((waiter) => comparePositions(waiter.through, through) <= 0);
    this.waiting = this.waiting.filter((waiter) => !taken.includes(waiter));
    return taken;
  }

  answer(waiters: readonly Waiter[], tally: Tally): void {
    this.waiting = this.waiting.filter((waiter) => !waiters.includes(waiter));
    for (const { resolve } of waiters) resolve(tally);
  }

  answerAll(tally: Tally): void {
    this.answer(this.waiting, tally);
  }
}
