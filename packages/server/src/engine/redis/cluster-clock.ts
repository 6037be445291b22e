/**
 * What time it is for the masters, as far as this node can tell: every reply carries a master's time, and the quickest of the last
 * seconds tells best. It never runs backwards. Nothing that must be right rests on it; the functions look at the
 * masters' own clock.
 */
import type { World } from "../../core/world.ts";

export class ClusterClock {
  private aheadMs = 0;
  private sampleTookMs = Number.POSITIVE_INFINITY;
  private sampledMs = 0;
  private latestMs = 0;

  /** `sampleMs`: after this long an old reply is worth less than a slow one, because clocks drift and masters change. */
  constructor(
    private readonly world: World,
    private readonly sampleMs: number,
  ) {}

  now(): number {
    this.latestMs = Math.max(this.latestMs, Math.round(this.world.now() + this.aheadMs));
    return this.latestMs;
  }

  /** A reply to what was sent at `sentMs` and has arrived now said that it was `masterMs` there. */
  learn(sentMs: number, now: number, masterMs: number): void {
    const tookMs = now - sentMs;
    if (tookMs > this.sampleTookMs && now - this.sampledMs < this.sampleMs) return;
    this.aheadMs = masterMs - (sentMs + now) / 2;
    this.sampleTookMs = tookMs;
    this.sampledMs = now;
  }
}
