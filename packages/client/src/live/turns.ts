/**
 * Lets a bounded number of requests run at the same time. A tab that follows many streams reads them through it after a
 * reconnect.
 *
 * Invariants: tasks start in the order of their arrival.
 */
export class Turns {
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly max: number) {}

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.running >= this.max) await new Promise<void>((resolve) => void this.waiting.push(resolve));
    else this.running++;
    try {
      return await task();
    } finally {
      // The place goes to the next task, or is free.
      const next = this.waiting.shift();
      if (next === undefined) this.running--;
      else next();
    }
  }
}
