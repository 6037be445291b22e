/**
 * The fixed-window counter behind `hit`, for engines that live in one process. A window opens with the first hit of its key and
 * lasts `windowMs` by a monotonic clock, so that no clock that is set can prolong it.
 *
 * Invariants: no window allows more than its limit. So a full table refuses new keys rather than forget a living window.
 */
import { ENGINE_BOUNDS } from "./bounds.ts";
import type { Hit } from "./contract.ts";
import { ExpiringMap } from "./expiring-map.ts";

interface Window {
  readonly untilMs: number;
  hits: number;
}

export class WindowCounter {
  private readonly windows: ExpiringMap<Window>;

  constructor(max = ENGINE_BOUNDS.windows) {
    this.windows = new ExpiringMap(max);
  }

  /** `nowMs` is the world's monotonic time. */
  hit(key: string, limit: number, windowMs: number, nowMs: number): Hit {
    let window = this.windows.get(key, nowMs);
    if (window === undefined) {
      window = { untilMs: nowMs + windowMs, hits: 0 };
      this.windows.set(key, window, nowMs);
    }
    if (window.hits >= limit) return { kind: "limited", retryAfterMs: Math.ceil(window.untilMs - nowMs) };
    window.hits++;
    return { kind: "allowed", remaining: limit - window.hits };
  }
}
