/**
 * An index from patterns of paths to their subscribers: a trie of levels. A feature with many patterns owns one per project;
 * wakes map patterns to subscriptions.
 *
 * Invariants: a match visits only branches that match the beginning of the path, for any number of patterns. No pattern matches a
 * reserved path. `*` does not match the level of shards; `**` does.
 */
import { isReserved } from "./reserved.ts";
import { SHARD_LEVEL } from "./shard-path.ts";
import type { TopicFilter } from "./topic.ts";

/** A pattern as levels: `=x` for the level x itself, `*` for any one level, `**` for any number of levels, none included. */
export type PatternLevels = readonly string[];

const ONE = "*";
const ANY = "**";

/** An MQTT filter as a pattern: `+` is one level, `#` any number. */
export function levelsOfFilter({ levels }: TopicFilter): PatternLevels {
  return levels.map((level) => (level === "+" ? ONE : level === "#" ? ANY : `=${level}`));
}

class Branch<V> {
  /** Keyed as in a pattern: a literal level with its `=`, or a wildcard. */
  readonly below = new Map<string, Branch<V>>();
  readonly values = new Set<V>();

  constructor(readonly isAny = false) {}

  get isEmpty(): boolean {
    return this.below.size === 0 && this.values.size === 0;
  }
}

export class TopicIndex<V> {
  private readonly root = new Branch<V>();

  /** Idempotent: the index holds a value once per pattern. */
  add(levels: PatternLevels, value: V): void {
    let branch = this.root;
    for (const level of levels) {
      let next = branch.below.get(level);
      if (next === undefined) {
        next = new Branch(level === ANY);
        branch.below.set(level, next);
      }
      branch = next;
    }
    branch.values.add(value);
  }

  /** Removes empty branches too. */
  remove(levels: PatternLevels, value: V): void {
    const way = [this.root];
    for (const level of levels) {
      const next = way.at(-1)!.below.get(level);
      if (next === undefined) return;
      way.push(next);
    }
    way.at(-1)!.values.delete(value);
    for (let i = levels.length; i > 0 && way[i]!.isEmpty; i--) way[i - 1]!.below.delete(levels[i - 1]!);
  }

  /** The values whose pattern matches the path, each once. */
  match(path: string): Set<V> {
    const found = new Set<V>();
    if (isReserved(path)) return found;
    let reached = new Set<Branch<V>>();
    enter(this.root, reached);
    for (const level of path.split("/")) {
      const next = new Set<Branch<V>>();
      for (const branch of reached) {
        if (branch.isAny) enter(branch, next);
        enter(branch.below.get(`=${level}`), next);
        if (level !== SHARD_LEVEL) enter(branch.below.get(ONE), next);
      }
      if (next.size === 0) return found;
      reached = next;
    }
    for (const { values } of reached) for (const value of values) found.add(value);
    return found;
  }
}

/** A branch is reached together with the `**` below it, which may stand for no level at all. */
function enter<V>(branch: Branch<V> | undefined, reached: Set<Branch<V>>): void {
  for (let at = branch; at !== undefined; at = at.below.get(ANY)) reached.add(at);
}
