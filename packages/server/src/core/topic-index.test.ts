import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { matchesFilter, parseFilter } from "./topic.ts";
import { levelsOfFilter, TopicIndex } from "./topic-index.ts";

const levelsOf = (filter: string) => levelsOfFilter(parseFilter(filter)!);

function indexOf(...filters: readonly string[]): TopicIndex<string> {
  const index = new TopicIndex<string>();
  for (const filter of filters) index.add(levelsOf(filter), filter);
  return index;
}

const matches = (index: TopicIndex<string>, path: string) => [...index.match(path)].sort();

test("a path finds the filters that match it, wildcards and literals alike", () => {
  const index = indexOf("a/b", "a/+", "a/#", "+/b", "#", "a/b/c", "b/#", "a/+/#");
  expect(matches(index, "a/b")).toEqual(["#", "+/b", "a/#", "a/+", "a/+/#", "a/b"]);
  expect(matches(index, "a")).toEqual(["#", "a/#"]);
  expect(matches(index, "b")).toEqual(["#", "b/#"]);
  expect(matches(index, "")).toEqual(["#"]);
});

describe("with literals, + and # in any order", () => {
  const level = fc.constantFrom("a", "b", "", "+");
  const filter = fc
    .tuple(fc.array(level, { minLength: 1, maxLength: 4 }), fc.boolean())
    .map(([levels, isOpen]) => [...levels, ...(isOpen ? ["#"] : [])].join("/"))
    .filter((text) => parseFilter(text) !== undefined);
  const path = fc
    .array(fc.constantFrom("a", "b", ""), { minLength: 1, maxLength: 5 })
    .map((levels) => levels.join("/"));

  test("the index finds the filters that match, also after some are removed", () => {
    fc.assert(
      fc.property(fc.uniqueArray(filter, { maxLength: 12 }), fc.array(filter), path, (kept, removed, path) => {
        const index = indexOf(...kept, ...removed);
        for (const one of removed) if (!kept.includes(one)) index.remove(levelsOf(one), one);
        expect(matches(index, path)).toEqual(kept.filter((one) => matchesFilter(parseFilter(one)!, path)).sort());
      }),
    );
  });
});

test("a pattern of two stars in the middle matches any number of levels there", () => {
  const index = new TopicIndex<string>();
  index.add(["=a", "**", "=z"], "a..z");
  index.add(["**", "=b", "**", "=b"], "..b..b");
  index.add(["**", "**"], "all");
  expect(matches(index, "a/z")).toEqual(["a..z", "all"]);
  expect(matches(index, "a/b/b/z")).toEqual(["a..z", "all"]);
  expect(matches(index, "b/b")).toEqual(["..b..b", "all"]);
  expect(matches(index, "a/b/x/b/b")).toEqual(["..b..b", "all"]);
  expect(matches(index, "b")).toEqual(["all"]);
});

test("no filter matches a reserved path", () => {
  const index = indexOf("#", "+/#", "$sys/#", "session:1", "__ds/+", "a/+");
  for (const path of ["$sys/a", "$sys", "session:1", "__ds/a", "__dsx"]) expect(matches(index, path), path).toEqual([]);
  expect(matches(index, "a/$sys")).toEqual(["#", "+/#", "a/+"]);
});

test("a one-level wildcard does not match the level of shards", () => {
  const index = indexOf("a/+/+", "a/#", "a/$shard/+");
  expect(matches(index, "a/$shard/0")).toEqual(["a/#", "a/$shard/+"]);
});

test("one value under two filters is found once, and stays until both are removed", () => {
  const index = new TopicIndex<string>();
  for (const filter of ["a/+", "a/#", "a/#"]) index.add(levelsOf(filter), "v");
  expect(matches(index, "a/b")).toEqual(["v"]);
  index.remove(levelsOf("a/#"), "v");
  expect(matches(index, "a/b")).toEqual(["v"]);
  index.remove(levelsOf("a/#"), "v");
  index.remove(levelsOf("b/#"), "v");
  expect(matches(index, "a/b")).toEqual(["v"]);
  index.remove(levelsOf("a/+"), "v");
  expect(matches(index, "a/b")).toEqual([]);
});

test("a path costs the same among ten thousand filters as among ten", () => {
  const filters = (count: number) =>
    Array.from({ length: count }, (_, i) =>
      ["room/%/msg", "room/%/+", "room/+/%/#", "+/%"][i % 4]!.replace("%", `${i}`),
    );
  const costOf = (count: number) => {
    const index = indexOf(...filters(count));
    let least = Number.POSITIVE_INFINITY;
    let found = 0;
    for (let round = 0; round < 20; round++) {
      const started = performance.now();
      for (let i = 0; i < 500; i++) found += index.match("room/4/msg").size;
      least = Math.min(least, performance.now() - started);
    }
    expect(found).toBe(20 * 500);
    return least;
  };
  // A scan would cost a thousand times as much.
  expect(costOf(10_000)).toBeLessThan(20 * costOf(10));
});
