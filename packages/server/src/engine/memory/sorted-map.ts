/**
 * A map that keeps its keys in bytewise order, for the rows of a table and the ids of a directory of the memory engine.
 *
 * Invariants: a lookup is one hash access; a range begins with two binary searches. The keys lie in runs of bounded length, so an
 * insertion moves few of them however many there are. No run is empty, except the only one of an empty map.
 */
import { compareBytewise } from "../../core/bytewise.ts";

const RUN_KEYS = 512;

export class SortedMap<V> {
  private readonly runs: string[][] = [[]];
  private readonly values = new Map<string, V>();

  /** `runKeys` is how many keys a run may have before it is cut in half. */
  constructor(private readonly runKeys = RUN_KEYS) {}

  get size(): number {
    return this.values.size;
  }

  get(key: string): V | undefined {
    return this.values.get(key);
  }

  set(key: string, value: V): void {
    if (!this.values.has(key)) this.insert(key);
    this.values.set(key, value);
  }

  delete(key: string): void {
    if (!this.values.delete(key)) return;
    const index = this.runFor(key);
    const run = this.runs[index]!;
    run.splice(firstNotBefore(run, key), 1);
    if (run.length === 0 && this.runs.length > 1) this.runs.splice(index, 1);
  }

  /** At most `limit` keys that start with `prefix` and come after `after`, in order. */
  keysAfter(after: string, limit: number, prefix = ""): string[] {
    const found: string[] = [];
    const from = compareBytewise(after, prefix) < 0 ? prefix : after;
    let index = this.runFor(from);
    let i = firstNotBefore(this.runs[index]!, from);
    for (; index < this.runs.length; index++, i = 0) {
      const run = this.runs[index]!;
      for (; i < run.length; i++) {
        const key = run[i]!;
        if (key === after) continue;
        if (found.length === limit || !key.startsWith(prefix)) return found;
        found.push(key);
      }
    }
    return found;
  }

  private insert(key: string): void {
    const index = this.runFor(key);
    const run = this.runs[index]!;
    run.splice(firstNotBefore(run, key), 0, key);
    if (run.length > this.runKeys) this.runs.splice(index + 1, 0, run.splice(run.length >>> 1));
  }

  /** The last run that begins at or before this key, or the first one. */
  private runFor(key: string): number {
    const next = firstWhere(this.runs.length, (i) => i > 0 && compareBytewise(this.runs[i]![0]!, key) > 0);
    return Math.max(0, next - 1);
  }
}

function firstNotBefore(keys: readonly string[], key: string): number {
  return firstWhere(keys.length, (i) => compareBytewise(keys[i]!, key) >= 0);
}

/** The first of `count` places from which on `isThere` holds, or `count`. */
function firstWhere(count: number, isThere: (place: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isThere(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
