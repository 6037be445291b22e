/**
 * Many items with the same time limit each, under one timer. The HTTP door keeps its open requests here, the Redis engine its
 * operations, and connections their lifetimes and heartbeats.
 *
 * Invariants: adding and removing are constant-time and cheap, because both happen for every request. The list keeps no reference
 * to a removed item. It expires each remaining item once, by a monotonic clock.
 */
import type { Cancel, World } from "./world.ts";

/** Something with a deadline. It is in one list at most. */
export abstract class Deadlined {
  /** Only the list uses these three fields. */
  dueMs = 0;
  before: Deadlined | undefined = undefined;
  after: Deadlined | undefined = undefined;

  /** The time is up. The item has left its list, so it may be added again. Must not throw. */
  abstract expire(): void;
}

export class Deadlines {
  /** Ordered by due time, which is the order of arrival. */
  private first: Deadlined | undefined;
  private last: Deadlined | undefined;
  private timer: Cancel | undefined;

  constructor(
    private readonly world: World,
    readonly spanMs: number,
  ) {}

  add(item: Deadlined): void {
    item.dueMs = this.world.monotonicMs() + this.spanMs;
    item.before = this.last;
    if (this.last === undefined) this.first = item;
    else this.last.after = item;
    this.last = item;
    // The timer stays when its item is removed: it finds the next item, so it is set once per span.
    this.timer ??= this.world.after(this.spanMs, this.look);
  }

  /** Removing an item that is not in the list changes nothing. */
  remove(item: Deadlined): void {
    const { before, after } = item;
    if (before === undefined && this.first !== item) return;
    if (before === undefined) this.first = after;
    else before.after = after;
    if (after === undefined) this.last = before;
    else after.before = before;
    item.before = undefined;
    item.after = undefined;
  }

  /** Lets the process end: no remaining item expires, unless another is added. */
  stop(): void {
    this.timer?.();
    this.timer = undefined;
  }

  private readonly look = (): void => {
    // The clock is read for each item, because an item that was added again would seem to be from the future of an earlier
    // reading.
    for (let item = this.first; item !== undefined && item.dueMs <= this.world.monotonicMs(); item = this.first) {
      this.remove(item);
      item.expire();
    }
    // Set only now, for the first item, because an item added during an expiry is due later than the remaining items.
    const next = this.first;
    this.timer = next && this.world.after(Math.max(1, next.dueMs - this.world.monotonicMs()), this.look);
  };
}
