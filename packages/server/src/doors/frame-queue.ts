/**
 * The messages that a client has sent over one connection, in the order in which they came: one is worked on, the others wait. A
 * door for a two-way protocol has one per connection. It knows no protocol.
 *
 * Invariants: messages are worked on in order, one at a time. At most `queuedRequests` or `smallBytes` wait before the door stops
 * reading. The budget is charged for every message until it is done, and gets everything back after the queue is closed.
 */
import type { BudgetLimits, MemoryBudget } from "./memory-budget.ts";
import type { LineLimits } from "./request-line.ts";

export type FrameLimits = Pick<LineLimits, "queuedRequests"> & Pick<BudgetLimits, "smallBytes">;

/** What a queue does to its connection. */
export interface FramePort {
  /** Stops reading the connection. More may arrive, from bytes that were read before. */
  pause(): void;
  resume(): void;
  /** There is no memory for another message: the door drops the connection, and closes the queue. */
  cut(): void;
}

export class FrameQueue {
  private readonly waiting: Uint8Array[] = [];
  /** What the budget is charged for. */
  private held = 0;
  private isWorking = false;
  private isPaused = false;
  private isClosed = false;

  /** `handle` must not reject. */
  constructor(
    private readonly handle: (frame: Uint8Array) => Promise<void>,
    private readonly port: FramePort,
    private readonly limits: FrameLimits,
    private readonly budget: MemoryBudget,
  ) {}

  arrive(frame: Uint8Array): void {
    if (this.isClosed) return;
    if (!this.budget.take(frame.length, this.held)) {
      this.port.cut();
      return;
    }
    this.held += frame.length;
    this.waiting.push(frame);
    if (this.isFull && !this.isPaused) {
      this.isPaused = true;
      this.port.pause();
    }
    if (!this.isWorking) void this.work();
  }

  /** The connection has ended. The message that is worked on is given back when it is done. */
  close(): void {
    this.isClosed = true;
    for (const frame of this.waiting.splice(0)) this.give(frame);
  }

  private get isFull(): boolean {
    return this.waiting.length > this.limits.queuedRequests || this.held > this.limits.smallBytes;
  }

  private async work(): Promise<void> {
    this.isWorking = true;
    for (let frame = this.waiting.shift(); frame !== undefined; frame = this.waiting.shift()) {
      await this.handle(frame);
      this.give(frame);
      if (this.isPaused && !this.isFull && !this.isClosed) {
        this.isPaused = false;
        this.port.resume();
      }
    }
    this.isWorking = false;
  }

  private give(frame: Uint8Array): void {
    this.held -= frame.length;
    this.budget.give(frame.length);
  }
}
