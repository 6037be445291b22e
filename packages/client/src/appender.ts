/**
 * The only writer of a stream in this client: collects appends while a request is in flight, sends them as the next request,
 * and retries. All handles of a stream share it.
 *
 * Invariants: one request is in flight, so a retry is idempotent and no append overtakes another. A numbered batch never
 * changes. The queue is bounded. A batch that fails also fails the batches queued behind it; the next append starts a new
 * epoch, which fences late requests. Without a producer only a close without a message is repeated. Under numbers of the
 * program's own every message is a request, and an append whose outcome is unknown ends the appender.
 */
import { header } from "@sluice/protocol";
import { Backoff } from "./backoff.ts";
import { type AppendResult, Batch, type Outgoing, type PublishResult } from "./batch.ts";
import type { Answer, Call, Connection } from "./connection.ts";
import { badAnswer, hasCode, isRefusal, SluiceError } from "./error.ts";
import { numberOption } from "./options.ts";
import type { LastBudget, PageExit } from "./page-exit.ts";
import type { Producer } from "./producer.ts";

export interface AppendLimits {
  /** Largest size of one request, in characters (or bytes), unless a single message is larger. */
  readonly batchSize: number;
  /** Most messages in one request. */
  readonly batchMessages: number;
  /** Most characters (or bytes) that may wait per stream; beyond it `append` rejects with `queue-full`. */
  readonly queueSize: number;
}

export function appendLimits({ batchSize, batchMessages, queueSize }: Partial<AppendLimits>): AppendLimits {
  return {
    batchSize: numberOption("append.batchSize", batchSize, 1024 * 1024, 1),
    batchMessages: numberOption("append.batchMessages", batchMessages, 10_000, 1),
    queueSize: numberOption("append.queueSize", queueSize, 16 * 1024 * 1024, 1),
  };
}

/** How often one batch may get new numbers; after that, new numbers cannot fix the failure. */
const MAX_CLAIMS = 3;

export interface AppenderParts {
  readonly connection: Connection;
  readonly exit: PageExit;
  /** The encoded levels of the stream's path. */
  readonly path: string;
  /** Undefined for an appender without numbers: it sends each request once. */
  readonly producer: Producer | undefined;
  readonly limits: AppendLimits;
}

export class Appender {
  private readonly queue: Batch[] = [];
  private queued = 0;
  private isRunning = false;
  private hasWritten = false;
  /** The shards of a topic count each for itself, so a new shard reports a gap and has lost nothing. */
  private isSharded = false;
  /** Set when no further append can succeed: the producer is fenced, or its own numbers have become uncertain. */
  private ended: unknown;
  /** The first failure since the last `flush`, for a caller that ignores the promise of `append`. */
  private failure: unknown;
  private waiting: (() => void)[] = [];

  constructor(private readonly parts: AppenderParts) {}

  /** Whether a new appender could take its place. The count of a program's own numbers must be kept. */
  get isIdle(): boolean {
    const isQuiet = this.queue.length === 0 && this.failure === undefined && this.ended === undefined;
    return isQuiet && !this.parts.producer?.isOwn;
  }

  append(outgoing: Outgoing): Promise<AppendResult> {
    if (this.ended !== undefined) return rejected(this.ended);
    const { body } = outgoing;
    const { queueSize } = this.parts.limits;
    if (this.queued + body.length > queueSize && this.queued > 0) {
      const says = `${this.queued} characters are waiting to be sent; ready() tells when there is room`;
      return this.fail(new SluiceError("queue-full", says));
    }
    const batch = this.batchFor(outgoing);
    this.queued += body.length;
    if (!this.isRunning) void this.run();
    // Every caller awaits a close, so `flush` need not report its failure again.
    if (batch.closes) batch.promise.catch((error) => this.forget(error));
    return batch.promise;
  }

  /** Resolves when half of the queue is free. */
  ready(): Promise<void> {
    if (this.hasRoom) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /** Resolves when every append is acknowledged; rejects with the first failure that it has not reported yet. */
  async flush(): Promise<void> {
    await this.queue.at(-1)?.promise.catch(() => {});
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }

  private get hasRoom(): boolean {
    return this.queued <= this.parts.limits.queueSize / 2;
  }

  private batchFor(outgoing: Outgoing): Batch {
    const { body, create } = outgoing;
    const { batchSize } = this.parts.limits;
    const batchMessages = this.parts.producer?.isOwn ? 1 : this.parts.limits.batchMessages;
    const last = this.queue.at(-1);
    const fits = last !== undefined && last.size + body.length <= batchSize && last.bodies.length < batchMessages;
    if (fits && last.takes(outgoing)) {
      last.push(body);
      if (create === undefined) last.create = undefined;
      return last;
    }
    if (last !== undefined) last.isSealed = true;
    const batch = new Batch(outgoing);
    this.queue.push(batch);
    return batch;
  }

  /** Never rejects: a failure settles the promises of the batches. */
  private async run(): Promise<void> {
    this.isRunning = true;
    this.parts.exit.add(this.lastWords);
    // Appends of the same turn share the request.
    await undefined;
    for (let batch = this.queue[0]; batch !== undefined; batch = this.queue[0]) {
      batch.isSealed = true;
      try {
        const result = await this.deliver(batch);
        if (result !== undefined) this.settle(batch, result);
      } catch (error) {
        this.failAll(error);
      }
    }
    this.parts.exit.delete(this.lastWords);
    this.isRunning = false;
  }

  private settle(batch: Batch, result: AppendResult): void {
    this.queue.shift();
    this.free(batch.size);
    batch.resolve(result);
  }

  private failAll(error: unknown): void {
    const { producer } = this.parts;
    const isCertain = isRefused(error) && !isAboutNumbers(error);
    if (hasCode(error, "producer-fenced") || (producer?.isOwn && !isCertain)) this.ended = error;
    this.failure ??= error;
    const failed = this.queue.splice(0);
    if (!producer?.isOwn) producer?.startEpoch();
    else if (failed[0]?.numbered) producer.rewind(failed[0].numbered);
    for (const batch of failed) {
      this.free(batch.size);
      batch.reject(error);
    }
  }

  private forget(error: unknown): void {
    if (this.failure === error) this.failure = undefined;
  }

  private fail(error: SluiceError): Promise<never> {
    this.failure ??= error;
    return rejected(error);
  }

  private free(size: number): void {
    this.queued -= size;
    if (!this.hasRoom || this.waiting.length === 0) return;
    const waiting = this.waiting.splice(0);
    // In a later turn, so that the next request is on its way before waiting callers fill the queue again.
    setTimeout(() => {
      for (const resolve of waiting) resolve();
    }, 0);
  }

  /** Returns undefined when it has split the batch; the two halves take its place in the queue. */
  private async deliver(batch: Batch): Promise<AppendResult | undefined> {
    const { connection } = this.parts;
    const backoff = new Backoff(connection.retries);
    for (let claims = 0; ; ) {
      this.number(batch);
      try {
        const result = this.accepted(batch, await connection.once(this.callFor(batch)));
        backoff.progress();
        return result;
      } catch (error) {
        if (this.mayCreate(batch, error)) {
          const { create } = batch;
          // Only once: if another client deletes the stream at the same time, it stays deleted.
          batch.create = undefined;
          await create!();
          continue;
        }
        if (isTooLarge(error) && batch.bodies.length > 1) {
          this.cut(batch);
          return undefined;
        }
        if (batch.isOnlyClosing && hasCode(error, "stream-closed")) return batch.resultOf(error.headers!);
        // Without a number the server cannot detect a repetition, and the lost answer may have been a success.
        if (this.parts.producer === undefined && !batch.isOnlyClosing) throw error;
        if (claims < MAX_CLAIMS && this.claim(batch, error)) claims++;
        else await backoff.wait(error);
      }
    }
  }

  /**
   * Whether the stream never existed. A stream that this client has written to was deleted, and must not be created again.
   */
  private mayCreate({ create }: Batch, error: unknown): boolean {
    return create !== undefined && !this.hasWritten && isRefusal(error, 404, "stream-not-found");
  }

  private accepted(batch: Batch, { at, status, headers }: Answer): AppendResult | PublishResult {
    if (status !== 204 && !headers.has(header.streamNextOffset) && !headers.has(header.producerEpoch)) {
      // A proxy or a login page may have answered, so the outcome is unknown.
      throw badAnswer(at, status, "the answer to an append is not one of a stream", { retryable: true });
    }
    if (batch.closes && !headers.has(header.streamClosed)) {
      throw badAnswer(at, status, "the server did not close the stream");
    }
    if (this.parts.producer?.isOvertaken(Number(headers.get(header.producerSeq) ?? Number.NaN))) {
      const says = "another producer uses the same id and epoch, and its messages were taken for ours";
      throw new SluiceError("producer-fenced", says);
    }
    this.hasWritten = true;
    this.isSharded ||= headers.has(header.streamShard);
    return batch.resultOf(headers);
  }

  /** Whether the server refused the numbers and the batch got new ones. In each of these cases the server wrote nothing. */
  private claim(batch: Batch, error: unknown): boolean {
    const { producer } = this.parts;
    if (!isAboutNumbers(error) || producer === undefined) return false;
    // The program chose these numbers, so only the program can choose others.
    if (producer.isOwn) throw error;
    if (!hasCode(error, "producer-fenced")) {
      // One request at a time leaves no gap, so the server has lost its record of what it acknowledged.
      batch.historyLost = this.hasWritten && !this.isSharded;
      this.renumber();
      return true;
    }
    if (this.hasWritten || !producer.isShared) return false;
    this.renumber(Number(error.headers?.get(header.producerEpoch) ?? 0) + 1);
    return true;
  }

  private renumber(leastEpoch?: number): void {
    this.parts.producer?.startEpoch(leastEpoch);
    for (const batch of this.queue) batch.numbered = undefined;
  }

  private number(batch: Batch): void {
    batch.numbered ??= this.parts.producer?.next();
  }

  /** The server accepts less than expected. It refuses for size before it looks at the number. */
  private cut(batch: Batch): void {
    this.renumber();
    this.queue.splice(0, 1, ...batch.halves());
  }

  private callFor(batch: Batch): Call {
    const { path, producer } = this.parts;
    const numbers = batch.numbered && producer?.headersFor(batch.numbered);
    const door = batch.isPublish ? "publish" : "stream";
    return { method: "POST", path: `${door}/${path}`, headers: { ...batch.headers, ...numbers }, body: batch.payload };
  }

  /**
   * Called when the page goes away: sends the queued requests without waiting for answers. If the page lives on, the
   * appender repeats the same requests; the server recognizes them by their numbers.
   */
  private readonly lastWords = (budget: LastBudget): void => {
    if (this.parts.producer === undefined) return;
    for (const batch of this.queue) {
      batch.isSealed = true;
      this.number(batch);
      const call = this.callFor(batch);
      const bytes = typeof call.body === "string" ? new TextEncoder().encode(call.body) : call.body;
      const { length } = bytes ?? [];
      if (length > budget.bytes) return;
      budget.bytes -= length;
      this.parts.connection.sendLast({ ...call, body: bytes });
    }
  };
}

/** The server has refused: nothing was written. */
function isRefused(error: unknown): boolean {
  return error instanceof SluiceError && error.status !== undefined && !error.retryable;
}

function isAboutNumbers(error: unknown): error is SluiceError {
  return hasCode(error, "producer-fenced", "producer-gap", "producer-epoch-start");
}

function isTooLarge(error: unknown): boolean {
  return error instanceof SluiceError && error.status === 413;
}

function rejected(error: unknown): Promise<never> {
  const promise = Promise.reject(error);
  promise.catch(() => {});
  return promise;
}
