/**
 * One budget for the request bodies, waiting requests and unsent answers that a server holds in memory. Every door takes from it
 * before it holds bytes, and gives the bytes back when it drops them. It knows no protocol.
 *
 * Invariants: `usedBytes` is at most `memoryBytes`. Large holders leave an eighth of the budget to small ones, so that a few
 * clients with large bodies or unread pages cannot shut out small requests.
 */
export interface BudgetLimits {
  readonly memoryBytes: number;
  /** A holder of at most this many bytes is small. */
  readonly smallBytes: number;
}

/** The divisor of the part that only small holders may use. */
const SMALL_PART = 8;

export class MemoryBudget {
  private used = 0;
  /** The bytes that large holders may use together. */
  private readonly largeBytes: number;

  constructor(private readonly limits: BudgetLimits) {
    this.largeBytes = limits.memoryBytes - Math.floor(limits.memoryBytes / SMALL_PART);
  }

  get usedBytes(): number {
    return this.used;
  }

  /** `held`: what the same holder has taken already, because a holder that grows stops being small. */
  hasRoom(bytes: number, held = 0): boolean {
    const { memoryBytes, smallBytes } = this.limits;
    return this.used + bytes <= (held + bytes <= smallBytes ? memoryBytes : this.largeBytes);
  }

  /** Takes all of the bytes, or takes nothing and returns false. */
  take(bytes: number, held = 0): boolean {
    if (!this.hasRoom(bytes, held)) return false;
    this.used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.used -= bytes;
  }
}
