/**
 * Many items with the same span of time each, under one timer. The HTTP door keeps its open requests here, the engine on Redis its
 * operations, and connections their lifetimes and heartbeats.
 *
 * Invariants: adding and removing cost next to nothing, because both happen for every request. A removed item is not held
 * on to. An item that is left is told once that its time is up.
 */
import type { Cancel, World } from "./world.ts";

/** Something with a deadline. It is in one list at most. */
export abstract class Deadlined {
  /** Only the list uses these three. */
  dueMs = 0;
  before: Deadlined | undefined = undefined;
  after: Deadlined | undefined = undefined;

  /** The time is up, and the item is in no list any more, so it may be added again. Must not throw. */
  abstract expire(): void;
}

export class Deadlines {
  /** In the order in which they are due, which is that of their coming. */
  private first: Deadlined | undefined;
  private last: Deadlined | undefined;
  private timer: Cancel | undefined;

  constructor(
    private readonly world: World,
    readonly spanMs: number,
  ) {}

  add(item: Deadlined): void {
    item.dueMs = this.world.now() + this.spanMs;
    item.before = this.last;
    if (this.last === undefined) this.first = item;
    else this.last.after = item;
    this.last = item;
    // The timer stays when the item that it was set for is removed: it finds the next one, and is set once per span.
    this.timer ??= this.world.after(this.spanMs, this.look);
  }

  /** Taking out what is not in changes nothing. */
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

  /** Lets the process end: no item that is left is told, unless another is added. */
  stop(): void {
    this.timer?.();
    this.timer = undefined;
  }

  private readonly look = (): void => {
    // The clock is read for each: an item that comes back would seem to be from the future of an earlier reading.
    for (let item = this.first; item !== undefined && this.isDue(item, this.world.now()); item = this.first) {
      this.remove(item);
      item.expire();
    }
    // Set only now, for the first of all: an item that was added by an expired one is due later than those that were left.
    const next = this.first;
    this.timer = next && this.world.after(Math.max(1, next.dueMs - this.world.now()), this.look);
  };

  /** An item further away than the span was added before the clock was set back, and must not wait for the clock to catch up. */
  private isDue({ dueMs }: Deadlined, now: number): boolean {
    return dueMs <= now || dueMs > now + this.spanMs;
  }
}
