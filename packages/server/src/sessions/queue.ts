/**
 * The queue behind a large fan-out: the copies of a round, cut into messages of some sessions each and worked on a few messages at
 * a time, so that the publish that caused them need not wait and other streams get their turn. It lives in this process and in
 * memory, because a lost message costs nothing: what is owed follows from the log.
 */
import type { Cancel } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Copy } from "./copy.ts";
import { type Deliveries, Delivery, type DeliveryParts, type Member, type Missed } from "./delivery.ts";
import type { FanoutLimits } from "./limits.ts";

export interface FanoutQueueMessage {
  readonly projectId: string;
  readonly streamId: string;
  readonly sessions: readonly Member[];
  /** Payload, content type and fan-out sequence; it does not leave the process, so nothing is encoded. */
  readonly copy: Copy;
}

/** Takes messages of one round. What becomes of them is told through what it returns. */
export interface FanoutQueue {
  send(messages: readonly FanoutQueueMessage[]): Deliveries;
}

export interface QueueParts extends DeliveryParts {
  readonly limits: FanoutLimits;
  readonly engine: Pick<Engine, "isBehind">;
  /** Appends to streams so far; copies do not count. */
  readonly appends: () => number;
}

/** Cuts a round into messages. */
export function messagesOf(
  round: Omit<FanoutQueueMessage, "sessions">,
  members: readonly Member[],
  size: number,
): readonly FanoutQueueMessage[] {
  const messages: FanoutQueueMessage[] = [];
  for (let i = 0; i < members.length; i += size) messages.push({ ...round, sessions: members.slice(i, i + size) });
  return messages;
}

interface Waiting {
  readonly message: FanoutQueueMessage;
  readonly into: Round;
}

export class LocalQueue implements FanoutQueue {
  private readonly waiting: Waiting[] = [];
  private next = 0;
  private consuming = 0;
  private cancel: Cancel | undefined;
  /** How many there were when it was last looked at, and when they were seen to have become more. */
  private appends = 0;
  private lastAppendMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly parts: QueueParts) {}

  /** Messages that are not being worked on yet. */
  get length(): number {
    return this.waiting.length - this.next;
  }

  send(messages: readonly FanoutQueueMessage[]): Deliveries {
    const round = new Round(messages.length);
    for (const message of messages) this.waiting.push({ message, into: round });
    this.work();
    return round;
  }

  private readonly goOn = (): void => {
    this.consuming--;
    this.work();
  };

  /**
   * Whether others append. They are waited for and the copies are not, so the queue rests between its messages; what is
   * appended meanwhile goes into the same copies, so that there are fewer of them and not more.
   */
  private isWanted(): boolean {
    const { appends, limits, world } = this.parts;
    if (limits.queueRestMs === 0) return false;
    const now = world.now();
    const count = appends();
    if (count !== this.appends) this.lastAppendMs = now;
    this.appends = count;
    return now - this.lastAppendMs < limits.queueQuietMs;
  }

  private work(): void {
    const { engine, limits, world } = this.parts;
    while (this.consuming < limits.queueConsumers && this.length > 0) {
      if (engine.isBehind?.()) {
        // Publishes and other requests that a client waits for go first.
        this.cancel ??= world.after(limits.queueYieldMs, () => {
          this.cancel = undefined;
          this.work();
        });
        return;
      }
      const { message, into } = this.waiting[this.next++]!;
      if (this.next === this.waiting.length) {
        this.waiting.length = 0;
        this.next = 0;
      }
      this.consuming++;
      const delivery = consume(this.parts, message);
      into.add(delivery);
      void delivery.answeredOrSlow.then(() => {
        if (this.isWanted()) world.after(limits.queueRestMs, this.goOn);
        else this.goOn();
      });
    }
  }
}

/** Hands one message to its sessions. Whom it could not reach is a laggard of the stream afterwards, and tried again there. */
export function consume(parts: QueueParts, message: FanoutQueueMessage): Delivery {
  const { projectId, copy, sessions } = message;
  return new Delivery(parts, projectId, copy, sessions, parts.limits.queueBatch);
}

/** The messages of one round, seen as one delivery. */
class Round implements Deliveries {
  readonly reached: Promise<void>;
  readonly answeredOrSlow: Promise<void>;
  readonly all: Promise<void>;
  private readonly parts: Delivery[] = [];
  private answeredOrSlowDone = 0;
  private allDone = 0;
  private resolveReached!: () => void;
  private resolveAnsweredOrSlow!: () => void;
  private resolveAll!: () => void;

  constructor(private readonly size: number) {
    this.reached = new Promise((resolve) => {
      this.resolveReached = resolve;
    });
    this.answeredOrSlow = new Promise((resolve) => {
      this.resolveAnsweredOrSlow = resolve;
    });
    this.all = new Promise((resolve) => {
      this.resolveAll = resolve;
    });
    if (size > 0) return;
    this.resolveAnsweredOrSlow();
    this.resolveAll();
  }

  get copied(): number {
    return this.parts.reduce((sum, { copied }) => sum + copied, 0);
  }

  get missed(): Missed {
    return this.parts.flatMap(({ missed }) => missed);
  }

  get pending(): readonly Member[] {
    return this.parts.flatMap(({ pending }) => pending);
  }

  add(delivery: Delivery): void {
    this.parts.push(delivery);
    void delivery.reached.then(() => this.resolveReached());
    void delivery.answeredOrSlow.then(() => {
      if (++this.answeredOrSlowDone === this.size) this.resolveAnsweredOrSlow();
    });
    void delivery.all.then(() => {
      if (++this.allDone === this.size) this.resolveAll();
    });
  }
}
