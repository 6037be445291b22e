/**
 * The queue behind a large fan-out. It cuts the copies of a round into messages of some sessions each
 * and works on a few at a time, for the projects in turn. So the publish need not wait, and a large fan-out of one project does not
 * delay the others'. Sources send to it. It lives in memory, because a lost message costs nothing: copies that are owed follow
 * from the log.
 */
import { FairQueue } from "../core/fair-queue.ts";
import type { Cancel } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Copy } from "./copy.ts";
import type { FanoutLimits } from "./defaults.ts";
import { type Deliveries, Delivery, type DeliveryParts, type Member, type Missed } from "./delivery.ts";

export interface FanoutQueueMessage {
  readonly projectId: string;
  readonly streamId: string;
  readonly sessions: readonly Member[];
  /** Payload, content type and fan-out sequence. It never leaves the process, so it is not encoded. */
  readonly copy: Copy;
}

/** Takes the messages of one round. The returned object reports their outcomes. */
export interface FanoutQueue {
  send(messages: readonly FanoutQueueMessage[]): Deliveries;
}

export interface QueueParts extends DeliveryParts {
  readonly limits: FanoutLimits;
  readonly engine: Pick<Engine, "isBehind">;
  /** Appends to streams so far, without copies. */
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
  private readonly waiting = new FairQueue<Waiting>();
  private consuming = 0;
  private cancel: Cancel | undefined;
  /** The number of appends at the last check, and when it was last seen to grow. */
  private appends = 0;
  private lastAppendMs = Number.NEGATIVE_INFINITY;
  private lastStartMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly parts: QueueParts) {}

  /** Messages that are not being worked on yet. */
  get length(): number {
    return this.waiting.length;
  }

  send(messages: readonly FanoutQueueMessage[]): Deliveries {
    const round = new Round(messages.length);
    for (const message of messages) this.waiting.push(message.projectId, { message, into: round });
    this.work();
    return round;
  }

  private work(): void {
    const { limits, world } = this.parts;
    while (this.consuming < limits.queueConsumers && this.length > 0) {
      const pauseMs = this.pauseMs();
      if (pauseMs > 0) {
        this.cancel ??= world.after(pauseMs, () => {
          this.cancel = undefined;
          this.work();
        });
        return;
      }
      this.lastStartMs = world.monotonicMs();
      this.start(this.waiting.shift()!);
    }
  }

  private start({ message, into }: Waiting): void {
    this.consuming++;
    const delivery = consume(this.parts, message);
    into.add(delivery);
    void delivery.answeredOrSlow.then(() => {
      this.consuming--;
      this.work();
    });
  }

  /** How long the next message has to wait, because clients wait for appends and not for copies. */
  private pauseMs(): number {
    const { engine, limits, world } = this.parts;
    if (engine.isBehind?.()) return limits.queueYieldMs;
    const now = world.monotonicMs();
    return this.areAppending(now) ? this.lastStartMs + limits.queuePaceMs - now : 0;
  }

  /** Whether clients append now. */
  private areAppending(now: number): boolean {
    const count = this.parts.appends();
    if (count !== this.appends) this.lastAppendMs = now;
    this.appends = count;
    return now - this.lastAppendMs < this.parts.limits.queueQuietMs;
  }
}

/**
 * Delivers one message to its sessions. A session that it cannot reach becomes a laggard of the stream and is retried
 * there.
 */
export function consume(parts: QueueParts, message: FanoutQueueMessage): Delivery {
  const { projectId, copy, sessions } = message;
  return new Delivery(parts, projectId, copy, sessions, parts.limits.queueBatch);
}

/** The messages of one round as one delivery. */
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
