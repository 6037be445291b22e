import { expect, test } from "vitest";
import { matchesGlob, parseGlob } from "../../packages/server/src/wakes/glob.ts";

function matches(pattern: string, path: string): boolean {
  return matchesGlob(parseGlob(pattern)!, path);
}

test("one star stands for exactly one level", () => {
  expect(matches("events/*", "events/a")).toBe(true);
  expect(matches("events/*", "events")).toBe(false);
  expect(matches("events/*", "events/a/b")).toBe(false);
  expect(matches("*/a", "events/a")).toBe(true);
  expect(matches("events/*", "other/a")).toBe(false);
});

test("one star does not stand for the level of shards, two do", () => {
  expect(matches("a/*/*", "a/$shard/0")).toBe(false);
  expect(matches("a/*/0", "a/$shard/0")).toBe(false);
  expect(matches("a/$shard/*", "a/$shard/0")).toBe(true);
  expect(matches("a/**", "a/$shard/0")).toBe(true);
  expect(matches("**/0", "a/$shard/0")).toBe(true);
  expect(matches("a/*", "a/b$shard")).toBe(true);
});

test("two stars stand for any number of levels, none included", () => {
  expect(matches("events/**", "events")).toBe(true);
  expect(matches("events/**", "events/a/b/c")).toBe(true);
  expect(matches("**", "anything/at/all")).toBe(true);
  expect(matches("a/**/z", "a/z")).toBe(true);
  expect(matches("a/**/z", "a/b/c/z")).toBe(true);
  expect(matches("a/**/z", "a/b/c/y")).toBe(false);
  expect(matches("**/b/**/d", "a/b/c/b/d")).toBe(true);
  expect(matches("**/x/*", "x/x/y")).toBe(true);
});

test("a literal star is written as %2A", () => {
  expect(matches("a/%2A", "a/*")).toBe(true);
  expect(matches("a/%2A", "a/b")).toBe(false);
  expect(matches("a/%2a%2A", "a/**")).toBe(true);
  expect(matches("a/%2a%2A", "a/b/c")).toBe(false);
});

test("a star that shares its level is not a pattern", () => {
  for (const text of ["", "a*", "a/*b", "a/***", "x/**y"]) expect(parseGlob(text), text).toBeUndefined();
});

test("every match starts with the literal prefix", () => {
  const cases = { "a/b": "a/b", "a/*": "a/", "a/**": "a", "a/**/b": "a/", "**": "", "*/a": "", "a/%2A/*": "a/*/" };
  for (const [text, prefix] of Object.entries(cases)) expect(parseGlob(text)!.literalPrefix, text).toBe(prefix);
});

test("matching takes at most the levels of the pattern times the levels of the path, however many wildcards there are", () => {
  const glob = parseGlob(`${"**/a/".repeat(100)}b`)!;
  const path = "a/".repeat(250).slice(0, -1);
  const limit = glob.levels.length * path.split("/").length;
  let steps = 0;
  // Each step of the matcher looks at one level. Backtracking into every wildcard would take more steps than can ever be made.
  const levels = new Proxy(glob.levels, {
    get(target, key) {
      if (++steps > limit) throw new Error(`more than ${limit} steps`);
      return Reflect.get(target, key);
    },
  });
  expect(matchesGlob({ ...glob, levels }, path)).toBe(false);
  expect(steps).toBeGreaterThan(path.split("/").length);
});
