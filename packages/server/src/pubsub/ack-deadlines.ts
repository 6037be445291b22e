/**
 * The ack deadlines of the messages that a subscriber has in flight. A message stream has one.
 *
 * Invariants: a message is told as expired once, at its deadline or a tick later, unless it was removed before. One timer serves
 * all messages. Pausing a stream stops no deadline.
 */
import type { Cancel, World } from "../core/world.ts";
import { TimerWheel } from "../leases/timer-wheel.ts";
import type { Message } from "./message.ts";

const TICK_MS = 20;
const AHEAD_MS = 1_000;

export class LeaseManager {
  private readonly wheel: TimerWheel<Message>;
  private readonly deadlines = new Map<Message, number>();
  private timer: Cancel | undefined;
  private waiting: (() => void)[] = [];

  constructor(
    private readonly world: Pick<World, "monotonicMs" | "after">,
    private readonly expired: (message: Message) => void,
  ) {
    this.wheel = new TimerWheel(TICK_MS, world.monotonicMs());
  }

  get size(): number {
    return this.deadlines.size;
  }

  get messages(): readonly Message[] {
    return [...this.deadlines.keys()];
  }

  has(message: Message): boolean {
    return this.deadlines.has(message);
  }

  /** Begins or moves the deadline of a message: so long from now. */
  add(message: Message, ms: number): void {
    const atMs = this.world.monotonicMs() + ms;
    this.deadlines.set(message, atMs);
    this.wheel.add(message, atMs);
    this.arm();
  }

  /** False if the message had no deadline any more. */
  remove(message: Message): boolean {
    const isThere = this.deadlines.delete(message);
    if (isThere) this.tellEmpty();
    return isThere;
  }

  /** Resolves when no message is in flight. */
  empty(): Promise<void> {
    if (this.deadlines.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  clear(): void {
    this.deadlines.clear();
    this.timer?.();
    this.timer = undefined;
    this.tellEmpty();
  }

  private tellEmpty(): void {
    if (this.deadlines.size > 0) return;
    this.timer?.();
    this.timer = undefined;
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }

  private arm(): void {
    const nextMs = this.wheel.nextMs(AHEAD_MS);
    if (this.timer !== undefined || nextMs === undefined || this.deadlines.size === 0) return;
    this.timer = this.world.after(Math.max(0, nextMs - this.world.monotonicMs()), () => {
      this.timer = undefined;
      this.expire();
      this.arm();
    });
  }

  private expire(): void {
    const now = this.world.monotonicMs();
    for (const message of this.wheel.take(now)) {
      const atMs = this.deadlines.get(message);
      // A message without a deadline was answered; one whose deadline moved has another item of the wheel.
      if (atMs === undefined || atMs > now) continue;
      this.deadlines.delete(message);
      this.expired(message);
    }
    this.tellEmpty();
  }
}
