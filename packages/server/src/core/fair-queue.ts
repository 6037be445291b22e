/**
 * A queue that takes from the projects in turn, so that the work of one tenant does not wait behind all work of another. Webhooks
 * and the queue of a fan-out wait in one.
 *
 * Invariants: items of one project leave in the order in which they came. With one project it is an ordinary queue.
 */

interface Line<T> {
  items: T[];
  /** Index of the first item that has not left. */
  first: number;
}

const COMPACT_AT = 256;

export class FairQueue<T> {
  /** Only projects with items, in the order of their turns. */
  private readonly lines = new Map<string, Line<T>>();
  private count = 0;

  get length(): number {
    return this.count;
  }

  push(project: string, item: T): void {
    const line = this.lines.get(project);
    if (line === undefined) this.lines.set(project, { items: [item], first: 0 });
    else line.items.push(item);
    this.count++;
  }

  /** The first item of the next project that `mayGo`; undefined if there is none. */
  shift(mayGo: (project: string) => boolean = () => true): T | undefined {
    for (const [project, line] of this.lines) {
      if (!mayGo(project)) continue;
      const item = line.items[line.first++]!;
      this.count--;
      // The project's next turn comes after those of all others.
      this.lines.delete(project);
      if (line.first < line.items.length) this.lines.set(project, compact(line));
      return item;
    }
    return undefined;
  }
}

/** Frees what has left, at a constant cost per item. */
function compact<T>(line: Line<T>): Line<T> {
  if (line.first < COMPACT_AT || line.first * 2 < line.items.length) return line;
  return { items: line.items.slice(line.first), first: 0 };
}
