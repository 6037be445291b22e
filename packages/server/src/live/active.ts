/**
 * Bounds the subscriptions that a hub follows: when there are too many, those that were not used for longest are parked. The hub
 * adds and removes them.
 *
 * A subscription was used if it has moved since the last look, so a push costs nothing extra. A used one gets a second chance
 * (the CLOCK algorithm), up to a bounded number of looks.
 *
 * Invariants: at most `max` are active. Parking is announced to the client, which subscribes again to resume.
 */
import type { Followed } from "./tab.ts";

/** Looks for one place; then the next subscription is parked, used or not. */
const MAX_LOOKS = 32;

export class ActiveSubscriptions {
  /** Oldest look first. */
  private readonly ring = new Set<Followed>();

  constructor(
    private readonly max: number,
    private readonly parked: () => void,
  ) {}

  get size(): number {
    return this.ring.size;
  }

  add(followed: Followed): void {
    while (this.ring.size >= this.max) this.parkOne();
    this.ring.add(followed);
  }

  remove(followed: Followed): void {
    this.ring.delete(followed);
  }

  private parkOne(): void {
    for (let looks = 1; ; looks++) {
      const [next] = this.ring;
      if (next === undefined) return;
      const position = next.follower?.position;
      const isUsed = next.seen === undefined || next.seen !== position;
      if (!isUsed || looks >= MAX_LOOKS) {
        this.parked();
        next.tab.park(next);
        // Parking removes it; if the tab has ended meanwhile, this does.
        this.ring.delete(next);
        return;
      }
      next.seen = position;
      this.ring.delete(next);
      this.ring.add(next);
    }
  }
}
