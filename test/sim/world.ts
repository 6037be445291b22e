/**
 * The simulated world: one clock, one queue of events, one source of randomness. Timers, turns of the event loop, storage
 * completions and network deliveries are all events here. The simulation steps it; server code sees the `World` of its
 * process.
 *
 * Invariants: nothing happens outside of an event. The seed draws the next event among those that are due, and the clock
 * moves only when none is. So a run depends on its seed alone.
 */
import { setImmediate as nextTurn } from "node:timers";
import type { Cancel, World } from "../../packages/server/src/core/world.ts";
import { EventQueue, type SimEvent } from "./event-queue.ts";
import { Random } from "./random.ts";

const START_MS = Date.UTC(2026, 0, 1);

export type Log = (line: string) => void;

export class SimWorld {
  readonly random: Random;
  private readonly order: Random;
  private readonly queue = new EventQueue();
  private nowMs = START_MS;
  private steps = 0;
  private quietAtMs = START_MS;

  /** `log` is left out where the log is not read: building the lines would cost more than the run. */
  constructor(
    readonly seed: number,
    readonly log?: Log | undefined,
  ) {
    this.random = new Random(seed);
    this.order = this.random.branch();
  }

  now(): number {
    return this.nowMs;
  }

  /** Milliseconds since the run began; for the log. */
  get elapsedMs(): number {
    return this.nowMs - START_MS;
  }

  get step(): number {
    return this.steps;
  }

  schedule(label: string, delayMs: number, task: () => void, process?: Process): Cancel {
    const event: SimEvent = { atMs: this.nowMs + Math.max(0, Math.ceil(delayMs)), label, task, process, isOff: false };
    this.queue.add(event, this.nowMs);
    return () => {
      event.isOff = true;
    };
  }

  /** Announces a delivery of the network or a completion of the storage after this long; `quiet` waits for it. */
  expect(delayMs: number): number {
    this.quietAtMs = Math.max(this.quietAtMs, this.nowMs + delayMs);
    return delayMs;
  }

  /** Resolves when everything in flight has arrived, with all its consequences. */
  async quiet(): Promise<void> {
    while (this.nowMs <= this.quietAtMs) await this.sleep(this.quietAtMs - this.nowMs + 1);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.schedule("sleep", ms, resolve));
  }

  process(name: string): Process {
    return new Process(this, name, this.random.branch());
  }

  /**
   * Runs events until `isOver`. After each one comes a real turn of the event loop: by then every microtask that the event
   * caused has run, so the next event meets a world at rest. No real I/O or timer runs, so that turn brings nothing else.
   */
  run(isOver: () => boolean, maxSteps: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const turn = (): void => {
        try {
          if (isOver()) {
            resolve();
            return;
          }
          if (this.steps >= maxSteps) throw new Error(`the run is not over after ${maxSteps} events`);
          this.runOne();
          nextTurn(turn);
        } catch (fault) {
          reject(fault);
        }
      };
      nextTurn(turn);
    });
  }

  private runOne(): void {
    const event = this.queue.take(this.nowMs, (count) => this.order.below(count));
    if (event === undefined) throw new Error("nothing is left that could happen, and the run is not over");
    this.nowMs = Math.max(this.nowMs, event.atMs);
    this.steps++;
    this.log?.(`${this.steps} +${this.elapsedMs} ${event.process ? `${event.process.name} ` : ""}${event.label}`);
    event.task();
  }
}

/** One life of the server process: its planned tasks die with it. */
export class Process implements World {
  alive = true;
  private readonly endings: (() => void)[] = [];

  constructor(
    private readonly sim: SimWorld,
    readonly name: string,
    private readonly chance: Random,
  ) {}

  now(): number {
    return this.sim.now();
  }

  monotonicMs(): number {
    return this.sim.elapsedMs;
  }

  after(ms: number, task: () => void): Cancel {
    return this.sim.schedule("timer", ms, task, this);
  }

  soon(task: () => void): void {
    this.sim.schedule("turn", 0, task, this);
  }

  random(): number {
    return this.chance.next();
  }

  randomBytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.chance.below(256));
  }

  /** An event of this process: a completion of its storage, or a delivery of its network. */
  schedule(label: string, delayMs: number, task: () => void): Cancel {
    return this.sim.schedule(label, this.sim.expect(delayMs), task, this);
  }

  /** Registers what the rest of the world does when this process ends. */
  onEnd(task: () => void): void {
    this.endings.push(task);
  }

  /** Ends the process: none of its planned or waiting tasks runs. */
  end(): void {
    if (!this.alive) return;
    this.alive = false;
    for (const task of this.endings.splice(0)) task();
  }
}
