/**
 * Streaming pull of one subscription: it keeps its streams open, delivers within flow control, and notices deadlines. `open` of a
 * subscription starts it, `close` stops it.
 *
 * Invariants: `maxMessages` and `maxBytes` hold over all of its streams together. A message is emitted once per delivery. After
 * `stop` nothing is emitted but `close`. An error that a repetition may mend is emitted, and the stream opens again with backoff.
 */
import type { Delivery, PullStream, StreamEnd } from "@sluice/protocol/pull";
import { delayAfter } from "../backoff.ts";
import { randomId } from "../random-id.ts";
import { LeaseManager } from "./ack-deadlines.ts";
import { CODE, errorOf, PubSubError, subscriptionNotFound } from "./errors.ts";
import { FlowControl } from "./flow-control.ts";
import { type Answers, Message } from "./message.ts";
import type { MessageQueue, Told } from "./message-queue.ts";
import { merged, type Resolved, resolved, type SubscriberOptions } from "./options.ts";
import type { Cancel, QueueWorld } from "./port.ts";

/** What a message stream needs of its subscription. */
export interface Subscribed {
  readonly name: string;
  readonly queue: MessageQueue;
  emit(event: "message", message: Message): boolean;
  emit(event: "error", error: Error): boolean;
  emit(event: "close"): boolean;
  listenerCount(event: "message" | "error"): number;
}

export interface StopOptions {
  /** `wait` for what is in flight to be answered or to expire, or `nack` it at once. */
  readonly mode?: "wait" | "nack" | undefined;
  /** The longest wait in seconds; what is in flight then is given back. */
  readonly timeout?: number | undefined;
}

const BACKOFF = { minMs: 100, maxMs: 30_000 };

export class MessageStream implements Answers {
  private readonly flow: FlowControl;
  private readonly leases: LeaseManager;
  private readonly world: QueueWorld;
  private readonly streams = new Set<PullStream>();
  /** Answers that were sent and not confirmed. */
  private unconfirmed = 0;
  private allConfirmed: () => void = () => {};
  private readonly retries = new Set<Cancel>();
  /** Its streams share one set of limits on the server, across reconnects. */
  private readonly share = randomId();
  private waiting: Message[] = [];
  private failures = 0;
  private settings: Resolved;
  private isStarted = false;
  private isPaused = false;
  private isDraining = false;
  private isStopping = false;
  private stopped: Promise<void> | undefined;

  constructor(
    private readonly subscription: Subscribed,
    private options: SubscriberOptions,
  ) {
    this.world = subscription.queue.world;
    this.settings = resolved(options);
    this.flow = new FlowControl(options.flowControl);
    this.leases = new LeaseManager(this.world, (message) => this.release(message));
  }

  /** Begins streaming pull. */
  start(): void {
    if (this.isStarted) return;
    this.isStarted = true;
    this.subscription.queue.streams.add(this);
    const { maxStreams } = this.settings;
    for (let i = 0; i < maxStreams; i++) void this.open();
  }

  private async open(): Promise<void> {
    const { subscription } = this;
    let stream: PullStream | undefined;
    let early: StreamEnd | undefined;
    try {
      stream = await subscription.queue.stream(subscription.name, this.asked(), {
        deliver: (deliveries) => this.take(deliveries),
        notice: () => this.fail(new PubSubError(CODE.notFound, "Topic not found")),
        ended: (why) => {
          if (stream === undefined) {
            early = why;
            return;
          }
          this.streams.delete(stream);
          this.ended(why);
        },
      });
      if (this.isStopping) {
        stream.close();
        return;
      }
      if (early !== undefined) {
        this.ended(early);
        return;
      }
      this.failures = 0;
      this.streams.add(stream);
      if (this.isPaused) stream.pause();
    } catch (fault) {
      this.fail(errorOf(fault));
    }
  }

  private asked() {
    const { maxMessages, maxBytes, allowsExcess, ackDeadlineMs, highWaterMark } = this.settings;
    return {
      maxMessages: maxMessages + highWaterMark,
      maxBytes,
      allowsExcess,
      ackDeadlineMs,
      isSequential: true,
      shareOf: this.share,
    };
  }

  private ended(why: StreamEnd): void {
    if (why === "subscription-deleted") this.fail(subscriptionNotFound());
    else if (why === "detached") {
      this.fail(new PubSubError(CODE.failedPrecondition, "The subscription is detached from its topic"));
    } else this.fail(new PubSubError(CODE.unavailable, "The stream was interrupted; it opens again"));
  }

  /** Several streams may tell the same; only the first fatal error is emitted. */
  private fail(error: PubSubError): void {
    if (this.isStopping) return;
    if (error.isFatal) {
      void this.stop({ mode: "nack" });
      this.subscription.emit("error", error);
      return;
    }
    const cancel = this.world.after(delayAfter(BACKOFF, this.failures++, 0, Math.random), () => {
      this.retries.delete(cancel);
      if (!this.isStopping) void this.open();
    });
    this.retries.add(cancel);
    // Node ends a program that does not listen to an error, and this one mends itself.
    if (this.subscription.listenerCount("error") > 0) this.subscription.emit("error", error);
  }

  /** Stops the flow for a while. Deadlines run on. */
  pause(): void {
    this.isPaused = true;
    for (const stream of this.streams) stream.pause();
  }

  resume(): void {
    this.isPaused = false;
    for (const stream of this.streams) stream.resume();
    this.drain();
  }

  /** Applies at the next pull; the number of streams when streaming begins. */
  setOptions(options: SubscriberOptions): void {
    this.options = merged(this.options, options);
    this.settings = resolved(this.options);
    this.flow.setOptions(this.options.flowControl ?? {});
    const { ackDeadlineMs, ...asked } = this.asked();
    for (const stream of this.streams) {
      stream.setLimits(asked);
      stream.setAckDeadline(ackDeadlineMs);
    }
    this.drain();
  }

  private take(deliveries: readonly Delivery[]): void {
    const messages = deliveries.map((delivery) => new Message(this, delivery));
    this.leases.addAll(messages, this.settings.ackDeadlineMs);
    for (const message of messages) this.waiting.push(message);
    this.drain();
  }

  /** Emits what waits, within flow control. If excess is allowed, a batch that was pulled is emitted whole. */
  drain(): void {
    // A listener that answers at once comes back here, while the loop below goes on.
    if (this.isDraining) return;
    this.isDraining = true;
    try {
      while (this.waiting.length > 0 && this.mayEmit()) this.emitNext();
    } finally {
      this.isDraining = false;
    }
  }

  private mayEmit(): boolean {
    if (this.isPaused || this.isStopping || this.subscription.listenerCount("message") === 0) return false;
    return this.settings.allowsExcess || !this.flow.isFull();
  }

  private emitNext(): void {
    const message = this.waiting.shift()!;
    // It expired while it waited.
    if (!this.leases.has(message)) return;
    this.flow.add(message.length);
    message.isCounted = true;
    this.subscription.emit("message", message);
  }

  /** The message was answered, or its deadline is over. */
  private release(message: Message): void {
    this.leases.remove(message);
    if (message.isCounted) this.flow.remove(message.length);
    message.isCounted = false;
    if (this.waiting.length > 0) this.drain();
  }

  ack(message: Message, told?: Told): void {
    this.release(message);
    this.subscription.queue.ack(this.subscription.name, message.ackId, this.counted(told));
  }

  nack(message: Message, delayMs: number | undefined, told?: Told): void {
    this.release(message);
    this.subscription.queue.nack(this.subscription.name, message.ackId, delayMs, this.counted(told));
  }

  extend(message: Message, ms: number, told?: Told): void {
    const { queue, name } = this.subscription;
    if (ms > 0 && this.leases.has(message)) this.leases.add(message, ms);
    else if (ms <= 0) this.release(message);
    queue.modifyAckDeadline(name, message.ackId, ms, this.counted(told));
  }

  /** Counts an answer that is on its way: `stop` waits for it. */
  private counted(told: Told | undefined): Told {
    this.unconfirmed++;
    if (told === undefined) return this.confirmed;
    return (outcome) => {
      this.confirmed();
      told(outcome);
    };
  }

  private readonly confirmed = (): void => {
    if (--this.unconfirmed === 0) this.allConfirmed();
  };

  /** Stops streaming. Resolves when nothing is in flight and every answer was sent. */
  stop(options: StopOptions = {}): Promise<void> {
    this.stopped ??= this.end(options);
    return this.stopped;
  }

  private async end({ mode = "wait", timeout }: StopOptions): Promise<void> {
    this.isStopping = true;
    for (const cancel of this.retries) cancel();
    for (const stream of this.streams) stream.close();
    this.streams.clear();
    const unseen = this.waiting;
    this.waiting = [];
    for (const message of unseen) message.nack();
    if (mode === "wait" && this.leases.size > 0) await this.allAnswered(timeout);
    for (const message of this.leases.messages) message.nack();
    if (this.unconfirmed > 0) {
      await new Promise<void>((resolve) => {
        this.allConfirmed = resolve;
      });
    }
    this.leases.clear();
    this.flow.clear();
    this.subscription.queue.streams.delete(this);
    this.subscription.emit("close");
  }

  private async allAnswered(timeout: number | undefined): Promise<void> {
    const empty = this.leases.empty();
    if (timeout === undefined) return empty;
    let cancel: Cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.world.after(timeout * 1_000, resolve);
    });
    await Promise.race([empty, late]);
    cancel();
  }
}
