/**
 * A delivered message: what it holds, and the answers to it. A message stream makes one per delivery.
 *
 * Invariants: the first answer counts; later ones do nothing. An answer after the deadline is still sent, because the message may
 * not have been delivered again yet.
 */
import type { AckOutcome, Delivery } from "@sluice/protocol/pull";
import { CODE, PubSubError } from "./errors.ts";
import type { Told } from "./message-queue.ts";

/** What a message asks of its stream. */
export interface Answers {
  ack(message: Message, told?: Told): void;
  nack(message: Message, delayMs: number | undefined, told?: Told): void;
  extend(message: Message, ms: number, told?: Told): void;
}

export class Message {
  private isAnswered = false;
  private buffer: Buffer | undefined;
  /** Whether a listener has it and flow control counts it. Its stream sets it. */
  isCounted = false;
  /** The other messages whose deadlines have the same length. The deadlines set it. */
  deadlines: Map<Message, number> | undefined;

  constructor(
    private readonly answers: Answers,
    private readonly delivery: Delivery,
  ) {}

  get id(): string {
    return this.delivery.messageId;
  }

  get ackId(): string {
    return this.delivery.ackId;
  }

  get data(): Buffer {
    const { data } = this.delivery;
    this.buffer ??= Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    return this.buffer;
  }

  get attributes(): Readonly<Record<string, string>> {
    return this.delivery.attributes;
  }

  get orderingKey(): string | undefined {
    return this.delivery.orderingKey;
  }

  get publishTime(): Date {
    return new Date(this.delivery.publishedAt);
  }

  /** From 1 on. */
  get deliveryAttempt(): number {
    return this.delivery.attempt;
  }

  /** The bytes of the data. */
  get length(): number {
    return this.delivery.data.length;
  }

  /** The message is processed. */
  ack(): void {
    if (this.isFirst()) this.answers.ack(this);
  }

  /** As `ack`; resolves when it is durable, and rejects if it does not count. */
  async ackWithResponse(): Promise<void> {
    if (this.isFirst()) await confirmed((told) => this.answers.ack(this, told));
  }

  /** Deliver it again, after so many seconds or as the retry policy says. */
  nack(delaySeconds?: number): void {
    if (this.isFirst()) this.answers.nack(this, msOf(delaySeconds));
  }

  async nackWithResponse(delaySeconds?: number): Promise<void> {
    if (this.isFirst()) await confirmed((told) => this.answers.nack(this, msOf(delaySeconds), told));
  }

  /** Moves the deadline: so many seconds from now. */
  modAck(seconds: number): void {
    if (!this.isAnswered) this.answers.extend(this, seconds * 1_000);
  }

  async modAckWithResponse(seconds: number): Promise<void> {
    if (!this.isAnswered) await confirmed((told) => this.answers.extend(this, seconds * 1_000, told));
  }

  private isFirst(): boolean {
    const isFirst = !this.isAnswered;
    this.isAnswered = true;
    return isFirst;
  }
}

function msOf(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1_000;
}

async function confirmed(send: (told: Told) => void): Promise<void> {
  const outcome = await new Promise<AckOutcome>(send);
  if (outcome === "gone") throw new PubSubError(CODE.failedPrecondition, "The ack id is not valid any more");
  if (outcome === "failed") throw new PubSubError(CODE.unavailable, "The answer was not stored; it may be repeated");
}
