/**
 * The retry policy: exponential backoff with jitter, never sooner than the server asked, and not forever. Each operation
 * makes one; `progress` resets its count of failures.
 *
 * Invariants: `wait` either resolves when the retry is due, or rejects with the error for the caller.
 */
import { SluiceError } from "./error.ts";

export interface RetryOptions {
  /** The first delay is about this long; each further delay doubles. */
  readonly minMs?: number | undefined;
  /** The longest delay, unless the server asks for more. */
  readonly maxMs?: number | undefined;
  /** After this long without success the caller gets the error. A live read and a channel's reader never give up. */
  readonly giveUpMs?: number | undefined;
  /** Called before every wait; for logs and "reconnecting…". An error that it throws ends the operation. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
  /** Called when the server answers again after `onRetry`; for "connected again". An error that it throws is ignored. */
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

/** The longest delay of a timer; a longer one would fire at once. */
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

  /** Called when the server has answered, before the outcome of the operation is known. */
  reached(): void {
    if (!this.isDown) return;
    this.isDown = false;
    try {
      this.policy.onRecover?.();
    } catch {
      // The server has answered; an error of the callback must not make the request look failed.
    }
  }

  /** Rejects instead of waiting when the error is final, the time is up, or the caller has aborted. */
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
    // Half of the delay is fixed and half is random, so that clients that failed together do not retry together.
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
