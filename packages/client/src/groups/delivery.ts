/**
 * A message of a group, as a program gets it: what it says, and the ways to settle it. The line of a connection makes one per
 * delivery.
 *
 * Invariants: a message is settled once; later calls change nothing. Nothing rejects unhandled: an acknowledgement that fails means
 * that the message comes again, which a program may leave to that.
 */
import { bytesOf } from "../message.ts";
import type { Sent, Source } from "./frames.ts";

export interface GroupMessage<T = unknown> {
  readonly stream: string;
  /** The position after this message. */
  readonly offset: string;
  readonly value: T;
  readonly contentType: string | undefined;
  readonly key: string | undefined;
  readonly attributes: Readonly<Record<string, string>> | undefined;
  /** Of a queue: 1 for the first delivery. */
  readonly attempt: number | undefined;
  /**
   * The message is processed; of a `share` group, with all earlier ones of its stream. Resolves when that is durable: it is not
   * delivered again then. Rejects with `fenced` when another member has it. Waiting is optional: a failure goes unnoticed
   * and the message comes again.
   */
  ack(): Promise<void>;
  /** Of a queue: the message could not be processed. It is delivered again after the delay, to any member. */
  nack(options?: { readonly delayMs?: number | undefined }): void;
  /** Of a queue: keeps the message for so long from now. */
  extend(leaseMs: number): void;
}

/** What settles a message; the line of its connection. */
export interface Settler {
  ack(delivery: Delivery<unknown>): Promise<void>;
  nack(delivery: Delivery<unknown>, delayMs: number | undefined): void;
  extend(delivery: Delivery<unknown>, leaseMs: number): void;
}

export class Delivery<T> implements GroupMessage<T> {
  readonly stream: string;
  readonly offset: string;
  readonly value: T;
  readonly contentType: string | undefined;
  readonly key: string | undefined;
  readonly attributes: Readonly<Record<string, string>> | undefined;
  readonly attempt: number | undefined;
  readonly #settler: Settler;
  readonly #epoch: number | undefined;
  readonly #lease: number | undefined;
  #acking: Promise<void> | undefined;
  #isNacked = false;

  constructor(source: Source, message: Sent, settler: Settler) {
    const { stream, contentType, attempt, epoch, lease } = source;
    const { offset, payload, encoding, key, attributes } = message;
    this.stream = stream;
    this.offset = offset;
    this.value = (encoding === "base64" ? bytesOf(String(payload)) : payload) as T;
    this.contentType = contentType;
    this.key = key;
    this.attributes = attributes;
    this.attempt = attempt;
    this.#epoch = epoch;
    this.#lease = lease;
    this.#settler = settler;
  }

  /** Of a `share` group. */
  get epoch(): number | undefined {
    return this.#epoch;
  }

  /** Of a queue. */
  get lease(): number | undefined {
    return this.#lease;
  }

  get isSettled(): boolean {
    return this.#isNacked || this.#acking !== undefined;
  }

  ack(): Promise<void> {
    if (this.#acking === undefined && !this.#isNacked) {
      this.#acking = this.#settler.ack(this);
      this.#acking.catch(() => {});
    }
    return this.#acking ?? Promise.resolve();
  }

  nack({ delayMs }: { readonly delayMs?: number | undefined } = {}): void {
    this.demandLease("nack");
    if (this.isSettled) return;
    this.#isNacked = true;
    this.#settler.nack(this, delayMs);
  }

  extend(leaseMs: number): void {
    this.demandLease("extend");
    if (!this.isSettled) this.#settler.extend(this, leaseMs);
  }

  private demandLease(method: string): void {
    if (this.#lease === undefined)
      throw new TypeError(`${method} is for the messages of a queue; this group shares streams`);
  }
}
