/**
 * The identity under which an appender numbers its requests, and the count itself. The server accepts each (id, epoch, seq)
 * once and in order. Made by the client, one for each appender.
 *
 * Invariants: no number is given to two different requests. Numbers that the program chose are never raised by the client,
 * because a program that restarts must meet them again.
 */
import { header } from "@sluice/protocol";
import { countOption, wrong } from "./options.ts";

/** Numbers of the program's own, for a program that restarts and appends the same messages again. */
export interface OwnNumbers {
  readonly id: string;
  /** Raise it to start anew; clients with a lower one are refused with `producer-fenced`. */
  readonly epoch: number;
  /** The number of the first append; 0 by default. */
  readonly seq?: number | undefined;
}

/** The number of a request. */
export interface Numbered {
  readonly epoch: number;
  readonly seq: number;
}

export class Producer {
  private seq: number;

  private constructor(
    private readonly id: string,
    /** Whether another client may use the same id; then the newest client fences the others. */
    readonly isShared: boolean,
    private readonly own: OwnNumbers | undefined,
    private readonly nextEpoch: () => number,
    private epoch: number,
  ) {
    this.seq = own?.seq ?? 0;
  }

  /** Undefined when requests are not numbered. `nextEpoch` returns a greater number with every call. */
  static of(option: StreamProducer | undefined, ownId: string, nextEpoch: () => number): Producer | undefined {
    if (option === false) return undefined;
    if (option === undefined) return new Producer(ownId, false, undefined, nextEpoch, nextEpoch());
    if (typeof option === "string") return new Producer(option, true, undefined, nextEpoch, nextEpoch());
    return new Producer(option.id, false, option, nextEpoch, option.epoch);
  }

  get isOwn(): boolean {
    return this.own !== undefined;
  }

  next(): Numbered {
    return { epoch: this.epoch, seq: this.seq++ };
  }

  /** The server refused this request for good, so its number is free. */
  rewind({ seq }: Numbered): void {
    this.seq = seq;
  }

  startEpoch(least = 0): void {
    this.epoch = Math.max(this.nextEpoch(), least, this.epoch + 1);
    this.seq = 0;
  }

  /** Whether the server has accepted numbers that this producer has not given yet. */
  isOvertaken(highest: number): boolean {
    return !this.isOwn && highest >= this.seq;
  }

  headersFor({ epoch, seq }: Numbered): Record<string, string> {
    return {
      [header.producerId]: this.id,
      [header.producerEpoch]: String(epoch),
      [header.producerSeq]: String(seq),
    };
  }
}

export type StreamProducer = string | false | OwnNumbers;

/** Throws when a producer is not one. */
export function checkProducer(producer: StreamProducer | undefined): void {
  if (producer === undefined || producer === false) return;
  const id: unknown = typeof producer === "object" ? producer?.id : producer;
  if (typeof id !== "string" || id === "") throw wrong("producer", "a name, { id, epoch } or false", producer);
  if (typeof producer !== "object") return;
  countOption("producer.epoch", producer.epoch ?? Number.NaN, 0);
  countOption("producer.seq", producer.seq, 0);
}
