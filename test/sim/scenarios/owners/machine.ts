/**
 * The machine of one contender: a clock with an offset and a rate of its own, pauses of any length, and death. Each
 * contender has one.
 *
 * Invariants: nothing happens on a paused machine; events that came due meanwhile run after the pause, in any order.
 * Requests that it has sent arrive also while it is paused or dead.
 */
import type { Cancel, World } from "../../../../packages/server/src/core/world.ts";
import type { Random } from "../../random.ts";
import type { Process } from "../../world.ts";

export class Machine implements World {
  private readonly bootMs: number;
  private readonly rate: number;
  private aheadMs: number;
  private pausedUntilMs = 0;
  private late: (() => void)[] = [];

  /** The clock may be hours off. Its rate differs by less than the safety margin of a lease. */
  constructor(
    private readonly process: Process,
    random: Random,
  ) {
    this.bootMs = process.now();
    this.rate = 1 + random.between(-5, 5) / 100;
    this.aheadMs = random.between(-10_000_000, 10_000_000);
  }

  now(): number {
    return this.bootMs + this.monotonicMs() + this.aheadMs;
  }

  monotonicMs(): number {
    return (this.process.now() - this.bootMs) * this.rate;
  }

  after(ms: number, task: () => void): Cancel {
    let isOff = false;
    this.process.after(ms / this.rate, () => this.whenAwake(() => isOff || task()));
    return () => {
      isOff = true;
    };
  }

  soon(task: () => void): void {
    this.process.soon(() => this.whenAwake(task));
  }

  random(): number {
    return this.process.random();
  }

  randomBytes(count: number): Uint8Array {
    return this.process.randomBytes(count);
  }

  get isPaused(): boolean {
    return this.process.now() < this.pausedUntilMs;
  }

  /** An answer from outside waits until the pause is over. */
  hear<T>(answer: Promise<T>): Promise<T> {
    const heard = () => new Promise<void>((resolve) => this.whenAwake(resolve));
    return answer.then(
      (value) => heard().then(() => value),
      (fault) => heard().then(() => Promise.reject(fault)),
    );
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  pause(ms: number): void {
    const untilMs = this.process.now() + ms;
    if (untilMs <= this.pausedUntilMs) return;
    this.pausedUntilMs = untilMs;
    if (ms < Number.POSITIVE_INFINITY) this.process.after(ms, () => this.resume());
  }

  die(): void {
    this.pause(Number.POSITIVE_INFINITY);
  }

  /** Moves the clock forward, as an operator or a time server may. */
  setClockForward(ms: number): void {
    this.aheadMs += ms;
  }

  private whenAwake(task: () => void): void {
    if (this.isPaused) this.late.push(task);
    else task();
  }

  private resume(): void {
    if (this.isPaused) return;
    const { late } = this;
    this.late = [];
    for (const task of late) this.process.schedule("late", 0, () => this.whenAwake(task));
  }
}
