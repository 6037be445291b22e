/**
 * A queue on an array: constant time at both ends, and `at` for a binary search. Blocks of the tail cache and the overlay's waits
 * use it.
 *
 * Invariants: the array keeps room for a few items while the queue is empty. Thousands of queues that hold an item now and then
 * would otherwise make an array each time.
 */
const COMPACT_AT = 256;
const KEPT_ROOM = 4;

export class Fifo<T> {
  private items: (T | undefined)[] = [];
  private first = 0;
  private end = 0;

  get length(): number {
    return this.end - this.first;
  }

  push(item: T): void {
    // An assignment behind the end of an empty array would make room for seventeen.
    if (this.items.length === 0) this.items = [item];
    else this.items[this.end] = item;
    this.end++;
  }

  at(index: number): T | undefined {
    return this.items[this.first + index];
  }

  last(): T | undefined {
    return this.end === this.first ? undefined : this.items[this.end - 1];
  }

  shift(): T | undefined {
    if (this.first === this.end) return undefined;
    const item = this.items[this.first];
    this.items[this.first++] = undefined;
    if (this.first === this.end) {
      if (this.items.length > KEPT_ROOM) this.items = [];
      this.first = 0;
      this.end = 0;
    } else if (this.first >= COMPACT_AT && this.first * 2 >= this.end) {
      this.items = this.items.slice(this.first, this.end);
      this.end -= this.first;
      this.first = 0;
    }
    return item;
  }
}
