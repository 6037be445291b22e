/**
 * The retry policy: exponential backoff with jitter, never sooner than the server asked, and not forever. Each operation
 * makes one; `progress` resets its count of failures. An answer without progress counts as a failure.
 *
 * Invariants: `wait` either resolves when the retry is due, or rejects with the error for the caller.
 */
import { onAbort } from "./abort.ts";
import { SluiceError } from "./error.ts";
import { numberOption, wrong } from "./options.ts";

export interface RetryOptions {
  /** The first delay is about this long, at least 1; each further delay doubles. 100 by default. */
  readonly minMs?: number | undefined;
  /** The longest delay, unless the server asks for more; 10,000 by default. */
  readonly maxMs?: number | undefined;
  /**
   * After this long without success the caller gets the error; 30,000 by default, and 0 means no retry. A single call and a
   * read may say otherwise. A live read and a channel's reader never give up unless they are told to.
   */
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
  const { onRetry, onRecover } = options;
  const most = numberOption("retries.maxMs", options.maxMs, Number.POSITIVE_INFINITY, 1);
  const minMs = numberOption("retries.minMs", options.minMs, Math.min(100, most), 1);
  const maxMs = numberOption("retries.maxMs", options.maxMs, Math.max(10_000, minMs), minMs);
  const giveUpMs = numberOption("retries.giveUpMs", options.giveUpMs, 30_000);
  for (const [name, hook] of Object.entries({ onRetry, onRecover })) {
    if (hook !== undefined && typeof hook !== "function") throw wrong(`retries.${name}`, "a function", hook);
  }
  return { minMs, maxMs, giveUpMs, onRetry, onRecover };
}

/** The longest delay of a timer; a longer one would fire at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1;

/** How long an answer without progress must have taken for the next request to follow at once. */
export const WORTHWHILE_MS = 1_000;

export class Backoff {
  private failures = 0;
  private failingSince = 0;
  private isDown = false;
  private readonly giveUpMs: number;

  constructor(
    private readonly policy: RetryPolicy,
    private readonly signal?: AbortSignal | undefined,
    giveUpMs?: number | undefined,
  ) {
    this.giveUpMs = numberOption("giveUpMs", giveUpMs, policy.giveUpMs);
  }

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
    const delayMs = delayAfter(this.policy, this.failures, error.retryAfterMs, Math.random);
    if (now + delayMs - this.failingSince > this.giveUpMs) throw error;
    this.failures++;
    this.isDown = true;
    this.policy.onRetry?.({ error, attempt: this.failures, delayMs });
    await sleep(delayMs, this.signal);
  }
}

/** How long to wait after one more failure than `failures`; never shorter than the server asked. */
export function delayAfter(
  { minMs, maxMs }: Pick<RetryPolicy, "minMs" | "maxMs">,
  failures: number,
  retryAfterMs = 0,
  random: () => number,
): number {
  const ceiling = Math.min(maxMs, minMs * 2 ** Math.min(failures, 30));
  // Half of the delay is fixed and half is random, so that clients that failed together do not retry together.
  const jitter = 0.5 + random() / 2;
  return Math.max(ceiling * jitter, retryAfterMs + minMs * random());
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => {
        stop();
        resolve();
      },
      Math.min(ms, MAX_DELAY_MS),
    );
    const aborted = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const stop = onAbort(signal, aborted);
    if (signal?.aborted) aborted();
  });
}

/** The server answered, and the operation is where it was: the next request waits. */
export class NoProgress extends SluiceError {
  constructor(says = "the server answered without bringing the read forward") {
    super("no-progress", says, { retryable: true });
  }
}
