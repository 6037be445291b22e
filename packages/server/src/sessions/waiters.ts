/** The publishes that wait for the copies of what they appended, and what they are told. A source has one. */
import { comparePositions, type Position } from "@sluice/protocol";

/** How the copies of a publish went. */
export interface Tally {
  readonly count: number;
  readonly successes: number;
  /** Sessions that exist and have no copy, laggards included. */
  readonly failures: number;
  /** Of these, those that were tried. */
  readonly failed: number;
}

export const NO_COPIES: Tally = { count: 0, successes: 0, failures: 0, failed: 0 };

export interface Waiter {
  readonly through: Position;
  readonly resolve: (tally: Tally) => void;
}

/** How a round went, for a publish that asks when it is over. */
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

  /** The publishes that wait for something up to there; they wait no longer. */
  take(through: Position): readonly Waiter[] {
    const taken = this.waiting.filter((waiter) => comparePositions(waiter.through, through) <= 0);
    this.waiting = this.waiting.filter((waiter) => !taken.includes(waiter));
    return taken;
  }

  /** A round is over, and the publishes that waited for it are answered. */
  settle(taken: readonly Waiter[], round: Settled): void {
    this.last = round;
    for (const { resolve } of taken) resolve(round.tally);
  }

  /** Nothing is left to copy of what they wait for: the last round has done it before they asked, or it was not ours to do. */
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
