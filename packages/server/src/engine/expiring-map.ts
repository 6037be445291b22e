/**
 * A map whose values each end at their own time, by a clock that never falls. Claims and rate-limit windows live in one.
 *
 * Invariants: an ended value is never returned. Memory is bounded: the map sweeps ended values before it doubles, which costs a
 * constant per insertion, and refuses a value beyond `max` living ones.
 */
import { EngineError } from "./contract.ts";

const FIRST_SWEEP = 1_024;

export class ExpiringMap<V extends { readonly untilMs: number }> {
  private readonly values = new Map<string, V>();
  private sweepAt = FIRST_SWEEP;

  constructor(private readonly max: number) {}

  get size(): number {
    return this.values.size;
  }

  get(key: string, nowMs: number): V | undefined {
    const value = this.values.get(key);
    return value !== undefined && nowMs < value.untilMs ? value : undefined;
  }

  set(key: string, value: V, nowMs: number): void {
    if (!this.values.has(key)) this.makeRoom(nowMs);
    this.values.set(key, value);
  }

  delete(key: string): void {
    this.values.delete(key);
  }

  private makeRoom(nowMs: number): void {
    if (this.values.size < Math.min(this.sweepAt, this.max)) return;
    for (const [key, { untilMs }] of this.values) if (untilMs <= nowMs) this.values.delete(key);
    this.sweepAt = Math.max(FIRST_SWEEP, this.values.size * 2);
    if (this.values.size >= this.max)
      throw new EngineError(
        "overloaded",
        `more than ${this.max} entries are alive at once; retry when some have expired`,
      );
  }
}
