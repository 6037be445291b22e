/**
 * An index of paths that answers which of them match a topic filter: a trie of levels. A feature that resolves filters owns one
 * per project. `topic-index.ts` answers the opposite question.
 *
 * Invariants: a match visits only branches that match the beginning of the filter, so its cost follows from its result. Reserved
 * paths and shards are never in the index: no filter reaches the former, and a shard is reached through its topic only.
 */
import { isReserved } from "./reserved.ts";
import { isAmongShards } from "./shard-path.ts";
import type { TopicFilter } from "./topic.ts";

/** Most branches are leaves, so a branch makes its map only when it needs one. */
class Branch {
  below: Map<string, Branch> | undefined = undefined;
  path: string | undefined = undefined;

  get isEmpty(): boolean {
    return this.path === undefined && (this.below === undefined || this.below.size === 0);
  }
}

export class PathIndex {
  private readonly root = new Branch();
  private count = 0;

  get size(): number {
    return this.count;
  }

  has(path: string): boolean {
    let branch: Branch | undefined = this.root;
    for (const level of path.split("/")) branch = branch?.below?.get(level);
    return branch?.path !== undefined;
  }

  /** False if the path is in the index already, or may not be in it. */
  add(path: string): boolean {
    if (isReserved(path) || isAmongShards(path)) return false;
    let branch = this.root;
    for (const level of path.split("/")) {
      branch.below ??= new Map();
      let next = branch.below.get(level);
      if (next === undefined) {
        next = new Branch();
        branch.below.set(level, next);
      }
      branch = next;
    }
    if (branch.path !== undefined) return false;
    branch.path = path;
    this.count++;
    return true;
  }

  /** Removes empty branches too. False if the path was not in the index. */
  remove(path: string): boolean {
    const levels = path.split("/");
    const way = [this.root];
    for (const level of levels) {
      const next = way.at(-1)!.below?.get(level);
      if (next === undefined) return false;
      way.push(next);
    }
    const leaf = way.at(-1)!;
    if (leaf.path === undefined) return false;
    leaf.path = undefined;
    this.count--;
    for (let i = levels.length; i > 0 && way[i]!.isEmpty; i--) way[i - 1]!.below!.delete(levels[i - 1]!);
    return true;
  }

  /** The paths that match the filter, each once, in no particular order. */
  match({ levels }: TopicFilter): string[] {
    const found: string[] = [];
    walk(this.root, levels, 0, found);
    return found;
  }

  *[Symbol.iterator](): Iterator<string> {
    const found: string[] = [];
    collect(this.root, found);
    yield* found;
  }
}

function walk(branch: Branch, levels: readonly string[], at: number, found: string[]): void {
  const level = levels[at];
  if (level === undefined) {
    if (branch.path !== undefined) found.push(branch.path);
  } else if (level === "#") {
    collect(branch, found);
  } else if (level !== "+") {
    const next = branch.below?.get(level);
    if (next !== undefined) walk(next, levels, at + 1, found);
  } else if (branch.below !== undefined) {
    for (const next of branch.below.values()) walk(next, levels, at + 1, found);
  }
}

function collect(branch: Branch, found: string[]): void {
  if (branch.path !== undefined) found.push(branch.path);
  if (branch.below !== undefined) for (const next of branch.below.values()) collect(next, found);
}
