/**
 * The circuit breaker of a stream's inline fan-out. It keeps a publish from waiting for copies that will most likely
 * fail again. A pure machine; its source asks it before a publish waits, and reports the result. It is not stored: a
 * restart closes the circuit.
 */
export interface BreakerLimits {
  readonly breakerFailures: number;
  readonly breakerRecoveryMs: number;
}

export type Circuit = "closed" | "open" | "half-open";

export class Breaker {
  private failures = 0;
  private failedAt = 0;
  private state: Circuit = "closed";

  constructor(private readonly limits: BreakerLimits) {}

  circuit(now: number): Circuit {
    if (this.state === "open" && now - this.failedAt >= this.limits.breakerRecoveryMs) return "half-open";
    return this.state;
  }

  /**
   * Whether a publish may wait for its copies. When half-open, one publish may, and the next only after it has
   * returned.
   */
  admits(now: number): boolean {
    const circuit = this.circuit(now);
    if (circuit === "half-open") this.state = "half-open";
    if (circuit !== "half-open") return circuit === "closed";
    if (this.isTesting) return false;
    this.isTesting = true;
    return true;
  }
  private isTesting = false;

  /** Reports an inline fan-out. Copies to sessions that are gone are neither a success nor a failure. */
  report(successes: number, failures: number, now: number): void {
    const wasTest = this.state === "half-open";
    this.isTesting = false;
    if (failures === 0 || (wasTest && successes > 0)) {
      this.state = "closed";
      this.failures = 0;
      return;
    }
    this.failedAt = now;
    this.failures++;
    if (wasTest || this.failures >= this.limits.breakerFailures) this.state = "open";
  }
}
