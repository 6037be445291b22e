import { expect, test } from "vitest";
import { coversPattern, matchesFilter, parseFilter } from "./topic.ts";

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

test.each([
  ["#", "**", true],
  ["a/#", "a/**", true],
  ["a/#", "a", true],
  ["a/#", "a/*/b/**/c", true],
  ["a/#", "*", false],
  ["a/#", "**", false],
  ["a/#", "**/a", false],
  ["a/#", "ab/**", false],
  ["a/+", "a/*", true],
  ["a/+", "a/b", true],
  ["a/+", "a/**", false],
  ["a/+", "a", false],
  ["a/+/#", "a/**", false],
  ["a/+/#", "a/*/**", true],
  ["a/b", "a/b", true],
  ["a/b", "a/*", false],
  ["a", "a/b", false],
  ["+/b", "*/b", true],
  ["+/b", "*/*", false],
])("filter %s covers pattern %s: %s", (text, pattern, covers) => {
  const levels = pattern.split("/").map((level) => (level.startsWith("*") ? level : `=${level}`));
  expect(coversPattern(parseFilter(text)!, levels)).toBe(covers);
});
