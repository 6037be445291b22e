/**
 * A world of one seed for the simulated disk. The tests of the disk engine and the simulator use it.
 *
 * Invariants: time passes only from event to event, and the seed decides which event is next. Two runs of a seed are the
 * same run.
 */
import type { World } from "../../../packages/server/src/core/world.ts";

interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly task: () => void;
}

const START_MS = Date.UTC(2026, 0, 1);

export class SimClock implements World {
  private events: Event[] = [];
  private nowMs = START_MS;
  private state: number;

  constructor(seed: number) {
    this.state = seed | 0;
  }

  now = (): number => this.nowMs;

  monotonicMs = (): number => this.nowMs - START_MS;

  after = (ms: number, task: () => void) => {
    // Events that are due together run in an order that the seed chooses.
    const event = { atMs: this.nowMs + ms, order: this.random(), task };
    this.events.push(event);
    return () => {
      this.events = this.events.filter((other) => other !== event);
    };
  };

  soon = (task: () => void): void => {
    this.after(0, task);
  };

  /** An operation of the simulated hardware: it ends some time later, in any order with others. */
  io<T>(run: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.after(this.random() * 0.5, () => {
        try {
          resolve(run());
        } catch (fault) {
          reject(fault);
        }
      });
    });
  }

  random = (): number => {
    this.state = (this.state + 0x9e3779b9) | 0;
    let x = Math.imul(this.state ^ (this.state >>> 16), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
  };

  randomBytes = (length: number): Uint8Array => Uint8Array.from({ length }, () => Math.floor(this.random() * 256));

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  /** Runs the next event and everything that follows at once; false when no event is left. */
  async step(): Promise<boolean> {
    let next: Event | undefined;
    for (const event of this.events) {
      if (!next || event.atMs < next.atMs || (event.atMs === next.atMs && event.order < next.order)) next = event;
    }
    if (next === undefined) return false;
    const { atMs, task } = next;
    this.events = this.events.filter((other) => other !== next);
    this.nowMs = Math.max(this.nowMs, atMs);
    task();
    await settled();
    return true;
  }

  /** Steps until the promise has settled, within `maxSteps`. */
  async until<T>(promise: Promise<T>, maxSteps = 100_000): Promise<T> {
    let pending = true;
    const done = promise.finally(() => {
      pending = false;
    });
    done.catch(() => undefined);
    await settled();
    for (let steps = 0; pending; steps++) {
      if (steps > maxSteps || !(await this.step())) throw new Error("nothing happens any more, and still it waits");
    }
    return done;
  }

  /** Drops every pending event. */
  forget(): void {
    this.events = [];
  }
}

/** Resolves after the queued promise reactions, and those that they queue. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
