/**
 * Many things that must each be over within the same span of time, under one timer. The HTTP door keeps its open requests here, and
 * the engine on Redis its operations.
 *
 * What must stay true: adding and removing cost next to nothing, because both happen for every request; what was removed
 * is not held on to; what is left is told that its time is up, once.
 */
import type { Cancel, World } from "./world.ts";

/** Something with a deadline. It is in one list at most. */
export abstract class Deadlined {
  /** Who belongs to these three is the list alone. */
  dueMs = 0;
  before: Deadlined | undefined = undefined;
  after: Deadlined | undefined = undefined;

  /** The time is up; it has been taken out already. Must not throw. */
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
    // The timer stays when the one it was set for is over: it looks who is next, and is set once per span.
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

  /** Lets the process end: nobody who is still in here is told any more, unless another comes. */
  stop(): void {
    this.timer?.();
    this.timer = undefined;
  }

  private readonly look = (): void => {
    const now = this.world.now();
    for (let item = this.first; item !== undefined && this.isDue(item, now); item = this.first) {
      this.remove(item);
      item.expire();
    }
    // Set only now, for the first of all: an item that was added by an expired one is due later than those that were left.
    this.timer = this.first && this.world.after(Math.max(1, this.first.dueMs - now), this.look);
  };

  /** Further away than the span is only what came before the clock was set back; nobody waits for the clock to catch up. */
  private isDue({ dueMs }: Deadlined, now: number): boolean {
    return dueMs <= now || dueMs > now + this.spanMs;
  }
}
