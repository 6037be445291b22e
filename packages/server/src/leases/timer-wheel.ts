/**
 * Many items with any time limits, under one timer: buckets of coarse ticks. The owner of leases has one for all of them.
 *
 * Invariants: adding is constant-time. An item comes up once, at its time or up to one tick later, never earlier. Nothing is
 * removed early: an item whose time has moved is added again when it comes up.
 */

export class TimerWheel<T> {
  private readonly buckets = new Map<number, T[]>();
  private lastTick: number;
  private count = 0;

  constructor(
    private readonly tickMs: number,
    now: number,
  ) {
    this.lastTick = this.tickOf(now);
  }

  get size(): number {
    return this.count;
  }

  add(item: T, atMs: number): void {
    // The bucket of a time holds what is due before its end, so the item comes up when that tick is over.
    const tick = Math.max(this.tickOf(atMs), this.lastTick) + 1;
    const bucket = this.buckets.get(tick);
    if (bucket === undefined) this.buckets.set(tick, [item]);
    else bucket.push(item);
    this.count++;
  }

  /** Takes the items whose time has come, by tick. */
  take(now: number): T[] {
    const due: T[] = [];
    const nowTick = this.tickOf(now);
    for (; this.lastTick < nowTick && this.count > 0; this.lastTick++) {
      const bucket = this.buckets.get(this.lastTick + 1);
      if (bucket === undefined) continue;
      this.buckets.delete(this.lastTick + 1);
      this.count -= bucket.length;
      // One push per item, because a large bucket exceeds the argument limit of a call.
      for (const item of bucket) due.push(item);
    }
    this.lastTick = Math.max(this.lastTick, nowTick);
    return due;
  }

  /** When `take` should be called next; undefined if there is no item. It looks ahead for `aheadMs` at most. */
  nextMs(aheadMs: number): number | undefined {
    if (this.count === 0) return undefined;
    const lastTick = this.lastTick + Math.ceil(aheadMs / this.tickMs);
    let tick = this.lastTick + 1;
    while (tick < lastTick && !this.buckets.has(tick)) tick++;
    return tick * this.tickMs;
  }

  private tickOf(ms: number): number {
    return Math.floor(ms / this.tickMs);
  }
}
