/**
 * Runs a handler for the messages of a group, several at a time. `Group.run` calls it.
 *
 * Invariants: of a stream of a `share` group one message is handled at a time, in order. A message whose handler fails is never
 * acknowledged: a queue delivers it again; a `share` group cannot go past it, so the run ends.
 */
import { SluiceError } from "../error.ts";
import { countOption, numberOption, wrong } from "../options.ts";
import type { Delivery, GroupMessage } from "./delivery.ts";
import type { Member } from "./member.ts";

export type GroupHandler<T> = (message: GroupMessage<T>) => unknown;

export interface RunOptions {
  /** How many messages are handled at the same time; 1 by default. */
  readonly concurrency?: number | undefined;
  /** Of a queue: the delay before a message whose handler failed is delivered again; 1,000 by default. */
  readonly retryMs?: number | undefined;
  /** Called with what a handler threw. */
  readonly onError?: ((error: unknown, message: GroupMessage<unknown>) => void) | undefined;
}

export class Runner<T> {
  private readonly concurrency: number;
  private readonly retryMs: number;
  private readonly busy: Set<string> | undefined;
  private failure: SluiceError | undefined;

  /** Throws a TypeError for a wrong option. */
  constructor(
    private readonly handler: GroupHandler<T>,
    private readonly options: RunOptions,
    isQueue: boolean,
  ) {
    const { concurrency, retryMs, onError = handler } = options;
    if (typeof handler !== "function") throw wrong("the handler", "a function", handler);
    if (typeof onError !== "function") throw wrong("onError", "a function", onError);
    this.concurrency = countOption("concurrency", concurrency, 1, 1);
    this.retryMs = numberOption("retryMs", retryMs, 1_000);
    this.busy = isQueue ? undefined : new Set();
  }

  async run(member: Member<T>): Promise<void> {
    try {
      await Promise.all(Array.from({ length: this.concurrency }, () => this.work(member)));
    } finally {
      await member.leave();
    }
    if (this.failure !== undefined) throw this.failure;
  }

  private async work(member: Member<T>): Promise<void> {
    for (let message = await member.next(this.busy); message; message = await member.next(this.busy)) {
      await this.handle(message, member);
      this.busy?.delete(message.stream);
      member.handOut();
    }
  }

  private async handle(message: Delivery<T>, member: Member<T>): Promise<void> {
    try {
      await this.handler(message);
      void message.ack();
    } catch (cause) {
      this.options.onError?.(cause, message);
      if (member.isQueue) message.nack({ delayMs: this.retryMs });
      else {
        const { stream, offset } = message;
        const says = `the handler failed for the message before ${offset} of ${stream}`;
        this.failure ??= new SluiceError("handler-failed", says, { cause, offset });
        member.stop();
      }
    }
  }
}
