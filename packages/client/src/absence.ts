/**
 * The wait for a stream or a channel that does not exist yet. Each reader makes one.
 *
 * Invariants: it covers only the time before the first answer. What existed and is gone is an error at once.
 */
import { sleep } from "./backoff.ts";
import { SluiceError } from "./error.ts";
import { numberOption } from "./options.ts";

const FIRST_LOOK_MS = 250;
const LAST_LOOK_MS = 2_000;

export class Absence {
  private readonly until: number;
  private lookMs = FIRST_LOOK_MS;

  constructor(
    waitMs: number | undefined,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.until = Date.now() + numberOption("waitMs", waitMs, 0);
  }

  /** Whether it has waited, and the reader should look again. */
  async wait(error: unknown): Promise<boolean> {
    if (!(error instanceof SluiceError) || error.status !== 404) return false;
    const leftMs = this.until - Date.now();
    if (leftMs <= 0) return false;
    await sleep(Math.min(this.lookMs, leftMs), this.signal);
    this.lookMs = Math.min(LAST_LOOK_MS, this.lookMs * 2);
    return true;
  }
}
