import fc from "fast-check";
import { expect, test } from "vitest";
import { PathIndex } from "./path-index.ts";
import { matchesFilter, parseFilter } from "./topic.ts";

const indexOf = (...paths: readonly string[]) => {
  const index = new PathIndex();
  for (const path of paths) index.add(path);
  return index;
};
const matches = (index: PathIndex, filter: string) => index.match(parseFilter(filter)!).sort();

test("a filter finds the paths that it matches, wildcards and literals alike", () => {
  const index = indexOf("a", "a/b", "a/b/c", "b", "b/b");
  expect(matches(index, "a")).toEqual(["a"]);
  expect(matches(index, "a/#")).toEqual(["a", "a/b", "a/b/c"]);
  expect(matches(index, "+/b")).toEqual(["a/b", "b/b"]);
  expect(matches(index, "a/+/c")).toEqual(["a/b/c"]);
  expect(matches(index, "#")).toEqual(["a", "a/b", "a/b/c", "b", "b/b"]);
  expect(matches(index, "c/#")).toEqual([]);
});

test("it finds what a scan over all paths finds, also after some are removed", () => {
  const path = fc.array(fc.constantFrom("a", "b", "", "c"), { minLength: 1, maxLength: 4 }).map((l) => l.join("/"));
  const filter = fc
    .tuple(fc.array(fc.constantFrom("a", "b", "", "+"), { maxLength: 4 }), fc.boolean())
    .map(([levels, isOpen]) => [...levels, ...(isOpen ? ["#"] : [])].join("/"))
    .filter((text) => parseFilter(text) !== undefined);
  fc.assert(
    fc.property(fc.uniqueArray(path, { maxLength: 20 }), fc.array(path), filter, (kept, removed, text) => {
      const index = indexOf(...kept, ...removed);
      for (const one of removed) if (!kept.includes(one)) index.remove(one);
      expect(index.size).toBe(kept.length);
      expect([...index].sort()).toEqual([...kept].sort());
      expect(matches(index, text)).toEqual(kept.filter((one) => matchesFilter(parseFilter(text)!, one)).sort());
    }),
  );
});

test("reserved paths and shards are never in it", () => {
  const index = indexOf("$sys/a", "session:1", "__ds/x", "a/$shard/0", "a/$other");
  expect(matches(index, "#")).toEqual(["a/$other"]);
  expect(index.has("a/$shard/0")).toBe(false);
  expect(index.add("a/$other")).toBe(false);
});

test("a filter costs the same among thirty thousand paths as among three hundred", () => {
  const costOf = (count: number) => {
    const index = new PathIndex();
    for (let i = 0; i < count; i++) index.add(`orders/${i % 10}/item/${i}`);
    const filter = parseFilter("orders/+/item/100")!;
    let least = Number.POSITIVE_INFINITY;
    let found = 0;
    for (let round = 0; round < 10; round++) {
      const started = performance.now();
      for (let i = 0; i < 100; i++) found += index.match(filter).length;
      least = Math.min(least, performance.now() - started);
    }
    expect(found).toBe(1_000);
    return least;
  };
  // A scan would cost a hundred times as much.
  expect(costOf(30_000)).toBeLessThan(20 * costOf(300));
});
