/**
 * This node's estimate of the masters' time. Every reply carries a master's time, and the fastest reply of the last seconds is
 * the best estimate.
 *
 * Invariants: it never runs backwards. Safety never rests on it, because the functions read the masters' own clock.
 */
import type { World } from "../../core/world.ts";

export class ClusterClock {
  private aheadMs = 0;
  private sampleTookMs = Number.POSITIVE_INFINITY;
  private sampledMs = 0;
  private latestMs = 0;

  /** `sampleMs`: the age at which a fast reply is worth less than a slow new one, because clocks drift and masters change. */
  constructor(
    private readonly world: World,
    private readonly sampleMs: number,
  ) {}

  now(): number {
    this.latestMs = Math.max(this.latestMs, Math.round(this.world.now() + this.aheadMs));
    return this.latestMs;
  }

  /** Takes a reply that has arrived now, to a call sent at `sentMs`, from a master whose time was `masterMs`. */
  learn(sentMs: number, now: number, masterMs: number): void {
    const tookMs = now - sentMs;
    if (tookMs > this.sampleTookMs && now - this.sampledMs < this.sampleMs) return;
    this.aheadMs = masterMs - (sentMs + now) / 2;
    this.sampleTookMs = tookMs;
    this.sampledMs = now;
  }
}
