/**
 * The waits between the tries of one activity of a live session: exponential backoff with jitter, in the session's world. The
 * link, each stream and each reader have one.
 *
 * Invariants: a wait ends early when the session has a reason to try at once, and never leaves a timer behind.
 */
import { delayAfter, type RetryPolicy } from "../backoff.ts";
import type { Cancel, LiveWorld } from "./world.ts";

export class Delays {
  private failures = 0;
  private cancel: Cancel | undefined;
  private finish: (() => void) | undefined;

  constructor(
    private readonly world: LiveWorld,
    private readonly policy: RetryPolicy,
  ) {}

  /** The last try was a success. */
  reset(): void {
    this.failures = 0;
  }

  /** Counts a failure and returns how long to wait after it. */
  next(retryAfterMs = 0): number {
    const random = () => this.world.random();
    return delayAfter(this.policy, this.failures++, retryAfterMs, random);
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.finish = () => {
        this.cancel?.();
        this.finish = undefined;
        resolve();
      };
      this.cancel = this.world.after(ms, this.finish);
    });
  }

  /** Ends the wait, if there is one. */
  hurry(): void {
    this.finish?.();
  }

  /** The server is there again: ends the wait, and forgets the failures before it. */
  restart(): void {
    this.reset();
    this.hurry();
  }
}
