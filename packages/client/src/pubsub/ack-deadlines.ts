/**
 * The ack deadlines of the messages that a subscriber has in flight. A message stream has one.
 *
 * Invariants: a message is told as expired once, at its deadline or a tick later, unless it was removed before. One timer serves
 * all messages. A message that was removed is not kept. Pausing a stream stops no deadline.
 */
import type { Message } from "./message.ts";
import type { Cancel, QueueWorld } from "./port.ts";

/** How late the end of a deadline may be noticed. */
const TICK_MS = 20;

/** Messages whose deadlines have one length, and when each ends. The first that was added is the first to expire. */
type Queue = Map<Message, number>;

export class LeaseManager {
  /** By length. A subscriber has few: that of its options, and those that it extends messages by. */
  private readonly queues = new Map<number, Queue>();
  private count = 0;
  private timer: Cancel | undefined;
  private timerAtMs = Number.POSITIVE_INFINITY;
  private waiting: (() => void)[] = [];

  constructor(
    private readonly world: Pick<QueueWorld, "monotonicMs" | "after">,
    private readonly expired: (message: Message) => void,
  ) {}

  get size(): number {
    return this.count;
  }

  get messages(): readonly Message[] {
    return [...this.queues.values()].flatMap((queue) => [...queue.keys()]);
  }

  has(message: Message): boolean {
    return message.deadlines !== undefined;
  }

  /** Begins or moves the deadline of a message: so long from now. */
  add(message: Message, ms: number): void {
    this.addAll([message], ms);
  }

  addAll(messages: readonly Message[], ms: number): void {
    const atMs = this.world.monotonicMs() + ms;
    const queue = this.queue(ms);
    for (const message of messages) {
      if (message.deadlines === undefined) this.count++;
      else message.deadlines.delete(message);
      queue.set(message, atMs);
      message.deadlines = queue;
    }
    if (atMs < this.timerAtMs) this.arm(atMs);
  }

  private queue(ms: number): Queue {
    let queue = this.queues.get(ms);
    if (queue === undefined) {
      queue = new Map();
      this.queues.set(ms, queue);
    }
    return queue;
  }

  /** False if the message had no deadline any more. */
  remove(message: Message): boolean {
    if (message.deadlines === undefined) return false;
    message.deadlines.delete(message);
    this.forget(message);
    return true;
  }

  private forget(message: Message): void {
    message.deadlines = undefined;
    if (--this.count === 0) this.tellEmpty();
  }

  /** Resolves when no message is in flight. */
  empty(): Promise<void> {
    if (this.count === 0) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  clear(): void {
    for (const message of this.messages) message.deadlines = undefined;
    this.count = 0;
    this.queues.clear();
    this.timer?.();
    this.timerAtMs = Number.POSITIVE_INFINITY;
    this.tellEmpty();
  }

  private tellEmpty(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }

  private arm(atMs: number): void {
    this.timer?.();
    this.timerAtMs = atMs;
    // Messages that expire within a tick share a turn.
    this.timer = this.world.after(Math.max(0, atMs - this.world.monotonicMs()) + TICK_MS / 2, () => {
      this.timerAtMs = Number.POSITIVE_INFINITY;
      this.expire();
    });
  }

  private expire(): void {
    const now = this.world.monotonicMs();
    const due: Message[] = [];
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [ms, queue] of this.queues) {
      for (const [message, atMs] of queue) {
        if (atMs > now) {
          nextMs = Math.min(nextMs, atMs);
          break;
        }
        queue.delete(message);
        due.push(message);
      }
      if (queue.size === 0) this.queues.delete(ms);
    }
    if (nextMs < this.timerAtMs) this.arm(nextMs);
    for (const message of due) {
      // A listener may have answered it meanwhile.
      if (message.deadlines === undefined) continue;
      this.forget(message);
      this.expired(message);
    }
  }
}
