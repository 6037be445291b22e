/**
 * A delivered message: what it holds, and the answers to it. A message stream makes one per delivery.
 *
 * Invariants: the first answer counts; later ones do nothing. An answer after the deadline is still sent, because the message may
 * not have been delivered again yet.
 */
import type { AckOutcome, Delivery } from "../pull/contract.ts";
import { CODE, PubSubError } from "./errors.ts";

/** What a message asks of its stream. */
export interface Answers {
  ack(message: Message): Promise<AckOutcome>;
  nack(message: Message, delayMs: number | undefined): Promise<AckOutcome>;
  extend(message: Message, ms: number): Promise<AckOutcome>;
}

export class Message {
  readonly id: string;
  readonly ackId: string;
  readonly data: Buffer;
  readonly attributes: Readonly<Record<string, string>>;
  readonly orderingKey: string | undefined;
  readonly publishTime: Date;
  /** From 1 on. */
  readonly deliveryAttempt: number;
  private isAnswered = false;

  constructor(
    private readonly answers: Answers,
    { ackId, messageId, data, attributes, orderingKey, publishedAt, attempt }: Delivery,
  ) {
    this.id = messageId;
    this.ackId = ackId;
    this.data = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    this.attributes = attributes;
    this.orderingKey = orderingKey;
    this.publishTime = new Date(publishedAt);
    this.deliveryAttempt = attempt;
  }

  /** The bytes of the data. */
  get length(): number {
    return this.data.length;
  }

  /** The message is processed. */
  ack(): void {
    this.answer(() => this.answers.ack(this))?.catch(() => {});
  }

  /** As `ack`; resolves when it is durable, and rejects if it does not count. */
  async ackWithResponse(): Promise<void> {
    confirm(await this.answer(() => this.answers.ack(this)));
  }

  /** Deliver it again, after so many seconds or as the retry policy says. */
  nack(delaySeconds?: number): void {
    this.answer(() => this.answers.nack(this, msOf(delaySeconds)))?.catch(() => {});
  }

  async nackWithResponse(delaySeconds?: number): Promise<void> {
    confirm(await this.answer(() => this.answers.nack(this, msOf(delaySeconds))));
  }

  /** Moves the deadline: so many seconds from now. */
  modAck(seconds: number): void {
    this.modAckWithResponse(seconds).catch(() => {});
  }

  async modAckWithResponse(seconds: number): Promise<void> {
    if (!this.isAnswered) confirm(await this.answers.extend(this, seconds * 1_000));
  }

  private answer(send: () => Promise<AckOutcome>): Promise<AckOutcome> | undefined {
    if (this.isAnswered) return undefined;
    this.isAnswered = true;
    return send();
  }
}

function msOf(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1_000;
}

function confirm(outcome: AckOutcome | undefined): void {
  if (outcome === "gone") throw new PubSubError(CODE.failedPrecondition, "The ack id is not valid any more");
  if (outcome === "failed") throw new PubSubError(CODE.unavailable, "The answer was not stored; it may be repeated");
}
