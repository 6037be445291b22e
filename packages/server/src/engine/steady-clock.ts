/**
 * The clock behind `Engine.now`: dates that survive a clock that is set. Each engine has one, over the clock of its machine or
 * its cluster.
 *
 * Invariants: it never falls and never stands still, so that no lease, retry or reminder waits for a clock that was set back to
 * catch up. It follows a clock that was set forward at once. A clock that was set back overtakes it again, because until then it
 * runs at half speed.
 */
import type { World } from "../core/world.ts";

export class SteadyClock {
  private latestMs = Number.NEGATIVE_INFINITY;
  private readAtMs = 0;

  constructor(private readonly clocks: Pick<World, "now" | "monotonicMs">) {}

  /** Epoch ms, whole. */
  now(): number {
    const { clocks } = this;
    const readAtMs = clocks.monotonicMs();
    this.latestMs = Math.max(clocks.now(), this.latestMs + (readAtMs - this.readAtMs) / 2);
    this.readAtMs = readAtMs;
    return Math.floor(this.latestMs);
  }
}
