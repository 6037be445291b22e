/**
 * When to retry: exponential backoff with jitter, never sooner than the server asked, and not forever. One per operation;
 * `progress` makes it forget its failures.
 *
 * Invariant: `wait` either resolves when it is time, or rejects with what the caller must be told.
 */
import { SluiceError } from "./error.ts";

export interface RetryOptions {
  /** The first delay is about this long, and doubles from there. */
  readonly minMs?: number | undefined;
  /** No delay is longer, unless the server asks for it. */
  readonly maxMs?: number | undefined;
  /** After so long without success the failure is delivered to the caller. A live read and a channel's reader never give up. */
  readonly giveUpMs?: number | undefined;
  /** Told before every wait; for logs and "reconnecting…". What it throws ends the operation. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
  /** Told when the server answers again after `onRetry`; for "connected again". What it throws is ignored. */
  readonly onRecover?: (() => void) | undefined;
}

export interface Retry {
  readonly error: SluiceError;
  /** 1 for the first failure in a row. */
  readonly attempt: number;
  readonly delayMs: number;
}

export interface RetryPolicy {
  readonly minMs: number;
  readonly maxMs: number;
  readonly giveUpMs: number;
  readonly onRetry: ((retry: Retry) => void) | undefined;
  readonly onRecover: (() => void) | undefined;
}

export function retryPolicy(options: RetryOptions): RetryPolicy {
  const { minMs = 100, maxMs = 10_000, giveUpMs = 120_000, onRetry, onRecover } = options;
  return { minMs, maxMs, giveUpMs, onRetry, onRecover };
}

/** Longer than any operation; a timer that is given more would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

export class Backoff {
  private failures = 0;
  private failingSince = 0;
  private isDown = false;

  constructor(
    private readonly policy: RetryPolicy,
    private readonly signal?: AbortSignal | undefined,
    private readonly giveUpMs = policy.giveUpMs,
  ) {}

  progress(): void {
    this.failures = 0;
    this.reached();
  }

  /** The server has answered; whether that leads to anything is not known yet. */
  reached(): void {
    if (!this.isDown) return;
    this.isDown = false;
    try {
      this.policy.onRecover?.();
    } catch {
      // What was done is done, and must not look as if it had failed.
    }
  }

  /** Rejects when there is nothing to wait for: the error is final, the time is up, or the caller has aborted. */
  async wait(error: unknown): Promise<void> {
    this.signal?.throwIfAborted();
    if (!(error instanceof SluiceError) || !error.retryable) throw error;
    const now = Date.now();
    if (this.failures === 0) this.failingSince = now;
    const delayMs = this.delay(error);
    if (now + delayMs - this.failingSince > this.giveUpMs) throw error;
    this.failures++;
    this.isDown = true;
    this.policy.onRetry?.({ error, attempt: this.failures, delayMs });
    await sleep(delayMs, this.signal);
  }

  private delay({ retryAfterMs = 0 }: SluiceError): number {
    const { minMs, maxMs } = this.policy;
    const ceiling = Math.min(maxMs, minMs * 2 ** Math.min(this.failures, 30));
    // Half of it is certain, half is chance: those who failed together do not come back together.
    const jitter = 0.5 + Math.random() / 2;
    return Math.max(ceiling * jitter, retryAfterMs + minMs * Math.random());
  }
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = () => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    };
    const timer = setTimeout(over, Math.min(ms, MAX_DELAY_MS));
    const aborted = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    if (signal?.aborted) aborted();
    else signal?.addEventListener("abort", aborted, { once: true });
  });
}
