/**
 * A queue on an array: constant time at both ends, and `at` for a binary search. Blocks of the tail cache and the overlay's waits
 * use it.
 */
const COMPACT_AT = 256;

export class Fifo<T> {
  private items: (T | undefined)[] = [];
  private first = 0;

  get length(): number {
    return this.items.length - this.first;
  }

  push(item: T): void {
    this.items.push(item);
  }

  at(index: number): T | undefined {
    return this.items[this.first + index];
  }

  last(): T | undefined {
    return this.items[this.items.length - 1];
  }

  shift(): T | undefined {
    if (this.first === this.items.length) return undefined;
    const item = this.items[this.first];
    this.items[this.first++] = undefined;
    if (this.first === this.items.length) {
      this.items = [];
      this.first = 0;
    } else if (this.first >= COMPACT_AT && this.first * 2 >= this.items.length) {
      this.items = this.items.slice(this.first);
      this.first = 0;
    }
    return item;
  }
}
