/** The publishes that wait for the copies of their append, and the answers they get. A source has one. */
import { comparePositions, type Position } from "@sluice/protocol";

/** The outcome of the copies of a publish. */
export interface Tally {
  readonly count: number;
  readonly successes: number;
  /** Sessions that exist and have no copy, laggards included. */
  readonly failures: number;
  /** Those of them that were tried. */
  readonly failed: number;
}

export const NO_COPIES: Tally = { count: 0, successes: 0, failures: 0, failed: 0 };

export interface Waiter {
  readonly through: Position;
  readonly resolve: (tally: Tally) => void;
}

/** The outcome of a round, for a publish that asks after it has ended. */
interface Settled {
  readonly after: Position;
  readonly through: Position;
  readonly tally: Tally;
}

export class Waiters {
  private waiting: Waiter[] = [];
  private last: Settled | undefined;

  get size(): number {
    return this.waiting.length;
  }

  get all(): readonly Waiter[] {
    return [...this.waiting];
  }

  add(through: Position): Promise<Tally> {
    return new Promise((resolve) => void this.waiting.push({ through, resolve }));
  }

  /** Removes and returns the publishes that wait for positions up to `through`. */
  take(through: Position): readonly Waiter[] {
    const taken = this.waiting.filter((waiter) => comparePositions(waiter.through, through) <= 0);
    this.waiting = this.waiting.filter((waiter) => !taken.includes(waiter));
    return taken;
  }

  /** Answers the publishes that waited for a round. */
  settle(taken: readonly Waiter[], round: Settled): void {
    this.last = round;
    for (const { resolve } of taken) resolve(round.tally);
  }

  /** Answers publishes for which nothing is left to copy: the last round or another node did it before they asked. */
  answerLate(waiters: readonly Waiter[], otherwise: Tally): void {
    const { last } = this;
    const isOfLast = ({ through }: Waiter) =>
      last !== undefined && comparePositions(last.after, through) < 0 && comparePositions(through, last.through) <= 0;
    this.answer(waiters.filter(isOfLast), last?.tally ?? otherwise);
    this.answer(
      waiters.filter((waiter) => !isOfLast(waiter)),
      otherwise,
    );
  }

  answer(waiters: readonly Waiter[], tally: Tally): void {
    this.waiting = this.waiting.filter((waiter) => !waiters.includes(waiter));
    for (const { resolve } of waiters) resolve(tally);
  }

  answerAll(tally: Tally): void {
    this.answer(this.waiting, tally);
  }
}
