/**
 * A map that keeps its keys in bytewise order, for the rows of a table and the ids of a directory of the memory engine.
 *
 * Invariants: a lookup is one hash access and a range one binary search. An insertion moves the keys behind it, which is fast
 * enough for 100,000 keys.
 */
import { compareBytewise } from "../../core/bytewise.ts";

export class SortedMap<V> {
  private readonly keys: string[] = [];
  private readonly values = new Map<string, V>();

  get size(): number {
    return this.keys.length;
  }

  get(key: string): V | undefined {
    return this.values.get(key);
  }

  set(key: string, value: V): void {
    if (!this.values.has(key)) this.keys.splice(this.firstNotBefore(key), 0, key);
    this.values.set(key, value);
  }

  delete(key: string): void {
    if (this.values.delete(key)) this.keys.splice(this.firstNotBefore(key), 1);
  }

  /** At most `limit` keys that start with `prefix` and come after `after`, in order. */
  keysAfter(after: string, limit: number, prefix = ""): string[] {
    const found: string[] = [];
    let i = this.firstNotBefore(compareBytewise(after, prefix) < 0 ? prefix : after);
    if (this.keys[i] === after) i++;
    for (; i < this.keys.length && found.length < limit; i++) {
      const key = this.keys[i]!;
      if (!key.startsWith(prefix)) break;
      found.push(key);
    }
    return found;
  }

  private firstNotBefore(key: string): number {
    let low = 0;
    let high = this.keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytewise(this.keys[middle]!, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
