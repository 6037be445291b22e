/**
 * This node's estimate of the masters' time. Every reply carries a master's time, and the fastest reply of the last seconds is
 * the best estimate.
 *
 * Invariants: it never falls and never stands still. This node's clock for dates counts only before the first reply. Safety never
 * rests on it, because the functions read the masters' own clock.
 */
import type { World } from "../../core/world.ts";
import { SteadyClock } from "../steady-clock.ts";

export class ClusterClock {
  private readonly steady: SteadyClock;
  /** How far the masters' time is ahead of this node's monotonic clock. */
  private aheadMs: number;
  private sampleTookMs = Number.POSITIVE_INFINITY;
  private sampledMs = 0;

  /** `sampleMs`: the age at which a fast reply is worth less than a slow new one, because clocks drift and masters change. */
  constructor(
    world: Pick<World, "now" | "monotonicMs">,
    private readonly sampleMs: number,
  ) {
    this.aheadMs = world.now() - world.monotonicMs();
    const monotonicMs = () => world.monotonicMs();
    this.steady = new SteadyClock({ now: () => monotonicMs() + this.aheadMs, monotonicMs });
  }

  now(): number {
    return this.steady.now();
  }

  /**
   * Takes a reply that has arrived now, to a call sent at `sentMs`, both by the monotonic clock, from a master whose time was
   * `masterMs`.
   */
  learn(sentMs: number, now: number, masterMs: number): void {
    const tookMs = now - sentMs;
    if (tookMs > this.sampleTookMs && now - this.sampledMs < this.sampleMs) return;
    this.aheadMs = masterMs - (sentMs + now) / 2;
    this.sampleTookMs = tookMs;
    this.sampledMs = now;
  }
}
