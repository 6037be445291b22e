import { expect, test } from "vitest";
import { utf8 } from "./bytes.ts";
import { isTooDeep, JSON_DEPTH } from "./json-depth.ts";

const nested = (open: string, depth: number, close: string) => open.repeat(depth) + close.repeat(depth);
const filler = `"${" ".repeat(JSON_DEPTH)}"`;

test.each([
  ["arrays of exactly the limit", nested("[", JSON_DEPTH, "]"), false],
  ["arrays of one level more", nested("[", JSON_DEPTH + 1, "]"), true],
  ["objects of exactly the limit", `${'{"a":'.repeat(JSON_DEPTH)}1${"}".repeat(JSON_DEPTH)}`, false],
  ["objects of one level more", `${'{"a":'.repeat(JSON_DEPTH + 1)}1${"}".repeat(JSON_DEPTH + 1)}`, true],
  ["both, together one level too many", `${'[{"a":'.repeat(JSON_DEPTH / 2)}[`, true],
  ["many that are closed again", `[${"[],".repeat(JSON_DEPTH)}{}]`, false],
  ["brackets within a string", `["${"[".repeat(2 * JSON_DEPTH)}"]`, false],
  ["brackets after a string that ends with a backslash", `["\\\\",${"[".repeat(JSON_DEPTH)}`, true],
  ["brackets within a string after an escaped quote", `["\\"${"[".repeat(2 * JSON_DEPTH)}"]`, false],
  ["a string without an end", `[${filler},"\\`, false],
  ["nothing that nests", filler, false],
])("%s", (_, text, expected) => {
  expect(isTooDeep(utf8(text))).toBe(expected);
});
