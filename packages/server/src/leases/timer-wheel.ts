/**
 * The time limits of many messages of many logs, under one timer: buckets of coarse ticks. The owner of leases has one for all of
 * them.
 *
 * Invariants: adding is constant-time and costs one number per message, because most are answered long before their time. A message
 * comes up once per `add`, at its time or up to one tick later, never earlier. Nothing is removed early: the owner of the log looks
 * whether the message still has that limit.
 */

export class TimerWheel<L> {
  private readonly buckets = new Map<number, Map<L, number[]>>();
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

  add(log: L, seq: number, atMs: number): void {
    // The bucket of a time holds what is due before its end, so the message comes up when that tick is over.
    const tick = Math.max(this.tickOf(atMs), this.lastTick) + 1;
    let bucket = this.buckets.get(tick);
    if (bucket === undefined) {
      bucket = new Map();
      this.buckets.set(tick, bucket);
    }
    const seqs = bucket.get(log);
    if (seqs === undefined) bucket.set(log, [seq]);
    else seqs.push(seq);
    this.count++;
  }

  /** Takes the messages whose time has come, by tick and log. */
  take(now: number): (readonly [log: L, seqs: readonly number[]])[] {
    const due: (readonly [L, readonly number[]])[] = [];
    const nowTick = this.tickOf(now);
    for (; this.lastTick < nowTick && this.count > 0; this.lastTick++) {
      const bucket = this.buckets.get(this.lastTick + 1);
      if (bucket === undefined) continue;
      this.buckets.delete(this.lastTick + 1);
      for (const entry of bucket) {
        this.count -= entry[1].length;
        due.push(entry);
      }
    }
    this.lastTick = Math.max(this.lastTick, nowTick);
    return due;
  }

  /** When `take` should be called next; undefined if there is no message. It looks ahead for `aheadMs` at most. */
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
