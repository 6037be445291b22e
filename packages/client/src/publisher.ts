/**
 * Publishes one answer on a channel: collects written parts, sends them a few times a second in requests of bounded size,
 * and retries. Made by the channel handle.
 *
 * Invariants: one request is in flight. A numbered message never changes, so a retry is idempotent. Requests stay within the
 * channel's rate and size. The queue is bounded. The caller learns of a failure from the promise it awaits next, and from
 * `end`.
 */
import { Backoff, sleep } from "./backoff.ts";
import { ChannelReader } from "./channel-reader.ts";
import { type Answer, type Call, type Connection, parsed } from "./connection.ts";
import { badAnswer, describeCause, SluiceError } from "./error.ts";
import { countOption, numberOption } from "./options.ts";
import { type Entry, LEAST_BYTES, Outbox, type Packed } from "./outbox.ts";
import type { LastBudget, PageExit } from "./page-exit.ts";

export interface PublisherOptions {
  /**
   * The least time between two requests. A channel accepts 20 per second; the default leaves a margin for clocks that
   * differ.
   */
  readonly intervalMs?: number | undefined;
  /** Largest size of one request. A channel accepts 16 KiB. */
  readonly requestBytes?: number | undefined;
  /** Most characters that may wait; beyond it the publisher fails with `queue-full`. */
  readonly queueSize?: number | undefined;
  /** How long publishing may fail before it gives up; `retries.giveUpMs` by default. */
  readonly giveUpMs?: number | undefined;
  /** The payload of START: the model, a title, or whatever else readers should know first. */
  readonly start?: unknown;
  /** The sequence of START, from which the others count; 0 by default. */
  readonly sequence?: number | undefined;
}

const INTERVAL_MS = 60;
const REQUEST_BYTES = 15 * 1024;
const QUEUE_SIZE = 1024 * 1024;

export class ChannelPublisher {
  private readonly outbox: Outbox;
  private readonly intervalMs: number;
  private readonly queueSize: number;
  private isRunning = false;
  private hasEnded = false;
  private listening: Promise<void> | undefined;
  private readonly stopping = new AbortController();
  /** Aborts when nothing more will be published. */
  private readonly over = new AbortController();
  private nextSendAt = 0;
  private failure: unknown;
  private lastOffset: string | undefined;
  private waiting: { readonly resolve: () => void; readonly reject: (error: unknown) => void; whenEmpty: boolean }[] =
    [];

  constructor(
    private readonly connection: Connection,
    private readonly exit: PageExit,
    private readonly address: string,
    private readonly options: PublisherOptions,
  ) {
    numberOption("giveUpMs", options.giveUpMs, 0);
    this.intervalMs = numberOption("intervalMs", options.intervalMs, INTERVAL_MS);
    this.queueSize = numberOption("queueSize", options.queueSize, QUEUE_SIZE, 1);
    const requestBytes = numberOption("requestBytes", options.requestBytes, REQUEST_BYTES, LEAST_BYTES);
    this.outbox = new Outbox(requestBytes, countOption("sequence", options.sequence, 0));
    const error = this.offer({ phase: "START", payload: options.start ?? null });
    if (error !== undefined) this.failAll(error);
  }

  /**
   * Aborts when a reader asks to stop: hand it to the model, and `end` as always. From its first use on, the publisher listens for
   * that also while it publishes nothing, which needs a token that may read. The reason is an error with the code `stopped`.
   */
  get signal(): AbortSignal {
    this.listening ??= this.listen();
    return this.stopping.signal;
  }

  /** The position after the last message that the server has accepted; undefined before the first. */
  get offset(): string | undefined {
    return this.lastOffset;
  }

  /**
   * Joins text with the text written before it; any other value becomes a message of its own. Resolves when the queue has
   * room for more.
   */
  write(part: unknown): Promise<void> {
    return this.put({ phase: "DELTA", payload: part });
  }

  /** Resolves when the server has accepted everything written so far. */
  flush(): Promise<void> {
    return this.wait(true);
  }

  /** Ends the answer; resolves when the server has accepted all of it. */
  end(payload: unknown = null): Promise<void> {
    return this.finish({ phase: "END", payload });
  }

  /** Ends the answer with an ERROR that tells readers the reason. */
  fail(reason: unknown): Promise<void> {
    const payload = reason instanceof Error ? reason.message : reason;
    // A reason that cannot be sent is told as text, because readers must not take the answer for a whole one.
    if (this.offer({ phase: "ERROR", payload }) !== undefined)
      this.offer({ phase: "ERROR", payload: describeCause(reason) });
    return this.finish({ phase: "END", payload: null });
  }

  private finish(entry: Entry): Promise<void> {
    const error = this.offer(entry);
    // Without its END the answer is not over, and may be ended with another payload.
    if (error !== undefined && !this.hasEnded) return rejected(error);
    this.hasEnded = true;
    return this.wait(true);
  }

  private put(entry: Entry): Promise<void> {
    const error = this.offer(entry);
    return error === undefined ? this.wait(false) : rejected(error);
  }

  /** Queues the entry. Returns why it cannot be published, if so. */
  private offer(entry: Entry): unknown {
    if (this.failure !== undefined) return this.failure;
    if (this.hasEnded) return new SluiceError("closed", "the publisher has ended");
    try {
      this.outbox.put(entry);
    } catch (error) {
      return error;
    }
    if (this.outbox.size > this.queueSize) {
      this.failAll(new SluiceError("queue-full", `more than ${this.queueSize} characters are waiting to be published`));
    } else if (!this.isRunning) void this.run();
    return undefined;
  }

  private wait(whenEmpty: boolean): Promise<void> {
    if (this.failure !== undefined) return rejected(this.failure);
    if (this.isServed(whenEmpty)) return Promise.resolve();
    const waiting = new Promise<void>((resolve, reject) => this.waiting.push({ resolve, reject, whenEmpty }));
    // A caller that ignores this promise learns of the failure from `end`.
    waiting.catch(() => {});
    return waiting;
  }

  private isServed(whenEmpty: boolean): boolean {
    return whenEmpty ? this.outbox.isEmpty : this.outbox.size <= this.queueSize / 2;
  }

  /** Never rejects: a failure rejects the promises of waiting callers. */
  private async run(): Promise<void> {
    this.isRunning = true;
    this.exit.add(this.lastWords);
    try {
      // Parts written in the same turn share the request.
      await undefined;
      while (!this.outbox.isEmpty) {
        await sleep(Math.max(0, this.nextSendAt - Date.now()));
        await this.sendOne();
      }
    } catch (error) {
      this.failAll(error);
    }
    this.exit.delete(this.lastWords);
    this.isRunning = false;
    if (this.hasEnded) this.over.abort();
  }

  private async sendOne(): Promise<void> {
    const backoff = new Backoff(this.connection.retries, undefined, this.options.giveUpMs);
    for (;;) {
      const packed = this.outbox.first();
      // The queue is empty when the publisher failed for another reason during the wait.
      if (packed === undefined) return;
      this.nextSendAt = Date.now() + this.intervalMs;
      try {
        const answer = await this.connection.once(this.callFor(packed));
        if (this.failure !== undefined) return;
        this.checkAnswer(answer);
        backoff.progress();
        this.outbox.sent();
        this.tell();
        return;
      } catch (error) {
        const isTooLarge = error instanceof SluiceError && error.status === 413;
        if (!isTooLarge || !this.outbox.packSmaller()) await backoff.wait(error);
      }
    }
  }

  private checkAnswer({ at, status, text }: Answer): void {
    const { offset, stop } = Object(parsed(text)) as { offset?: unknown; stop?: { reason?: string } };
    // A proxy or a login page may have answered, so the outcome is unknown.
    if (typeof offset !== "string") {
      throw badAnswer(at, status, "the answer is not one of a channel", { retryable: true });
    }
    this.lastOffset = offset;
    if (stop) this.stop(stop);
  }

  private stop({ reason }: { readonly reason?: string }): void {
    this.stopping.abort(new SluiceError("stopped", reason ?? "a reader has asked to stop"));
  }

  /** Never rejects: without leave to listen, or once the channel is gone, the answers to publishes tell. */
  private async listen(): Promise<void> {
    const options = { from: "now", waitMs: Number.POSITIVE_INFINITY, signal: this.over.signal };
    try {
      const reader = new ChannelReader(this.connection, `${this.address}/events`, options, "stop");
      for await (const { event, data } of reader.events()) {
        if (event === "stop") return this.stop(Object(parsed(data)));
      }
    } catch {
      // As above.
    }
  }

  private tell(): void {
    const served = this.waiting.filter(({ whenEmpty }) => this.isServed(whenEmpty));
    this.waiting = this.waiting.filter((one) => !served.includes(one));
    for (const { resolve } of served) resolve();
  }

  private failAll(error: unknown): void {
    this.failure ??= error;
    this.over.abort();
    this.outbox.clear();
    for (const { reject } of this.waiting.splice(0)) reject(this.failure);
  }

  private callFor({ body }: Packed): Call {
    return { method: "POST", path: `${this.address}/publish`, headers: { "Content-Type": "application/json" }, body };
  }

  /** Called when the page goes away: sends the next requests without waiting for answers. */
  private readonly lastWords = (budget: LastBudget): void => {
    for (const packed of this.outbox.packAll()) {
      if (packed.bytes > budget.bytes) return;
      budget.bytes -= packed.bytes;
      this.connection.sendLast(this.callFor(packed));
    }
  };
}

function rejected(error: unknown): Promise<never> {
  const promise = Promise.reject(error);
  promise.catch(() => {});
  return promise;
}
