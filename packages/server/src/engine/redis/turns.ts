/**
 * Who goes first when several nodes write one entity. A commit that meets another's is tried again at once, and the winner, who is
 * told of it, waits a little before its next: otherwise the fastest would win every time. While it waits its inputs
 * gather, so that its next commit is the larger.
 */
import type { World } from "../../core/world.ts";

/** About as long as the other needs to come back; never long enough to be felt. */
const MAX_YIELD_MS = 50;
const MIN_YIELD_MS = 2;
const MAX_ENTITIES = 10_000;

export class Turns {
  /** Until when this engine holds back, per entity. Old ones are dropped when there are many. */
  private readonly yields = new Map<string, number>();

  constructor(private readonly world: World) {}

  /** `tookMs`: how long the commit took that met the other's. */
  yieldTo(key: string, tookMs: number): void {
    const now = this.world.now();
    if (this.yields.size >= MAX_ENTITIES) {
      for (const [other, untilMs] of this.yields) if (untilMs <= now) this.yields.delete(other);
    }
    this.yields.set(key, now + Math.min(MAX_YIELD_MS, Math.max(MIN_YIELD_MS, tookMs)));
  }

  /** Undefined when nobody waits: the common case costs a look. */
  turn(key: string): Promise<void> | undefined {
    const untilMs = this.yields.get(key);
    if (untilMs === undefined) return undefined;
    this.yields.delete(key);
    const waitMs = untilMs - this.world.now();
    return waitMs <= 0 ? undefined : new Promise((resolve) => void this.world.after(waitMs, resolve));
  }
}
