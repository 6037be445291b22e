import { expect, test } from "vitest";
import { matchesFilter, parseFilter } from "./topic.ts";

test.each([
  ["a/b", "a/b", true],
  ["a/b", "a/b/c", false],
  ["a/+", "a/b", true],
  ["a/+", "a", false],
  ["a/+", "a/b/c", false],
  ["+/b", "a/b", true],
  ["a/#", "a", true],
  ["a/#", "a/b/c", true],
  ["a/#", "ab", false],
  ["#", "a/b", true],
  ["a/+/c", "a/b/c", true],
  ["a/+/#", "a", false],
  ["a/+/#", "a/b", true],
  ["a//b", "a//b", true],
  ["a/+/b", "a//b", true],
])("filter %s, path %s: %s", (text, path, matches) => {
  const filter = parseFilter(text)!;
  expect(matchesFilter(filter, path)).toBe(matches);
  if (matches) expect(path.startsWith(filter.literalPrefix)).toBe(true);
});

test.each(["", "a+", "a/#/b", "#a", "+a/b"])("%j is not a filter", (text) => {
  expect(parseFilter(text)).toBeUndefined();
});
