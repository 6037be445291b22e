import { expect, test } from "vitest";
import { linesOf } from "./input.ts";

async function* arriving(pieces: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield Buffer.from(piece);
}

test.each<[string, readonly string[], readonly [number, string][]]>([
  [
    "end in LF or CRLF",
    ["a\nb\r\nc\n"],
    [
      [1, "a"],
      [2, "b"],
      [3, "c"],
    ],
  ],
  [
    "may arrive in pieces, cut anywhere",
    ["a", "b\r", "\nc", "\n", "d\n"],
    [
      [1, "ab"],
      [2, "c"],
      [3, "d"],
    ],
  ],
  [
    "that are empty are skipped and still counted",
    ["\n\r\na\n\nb\n"],
    [
      [3, "a"],
      [5, "b"],
    ],
  ],
  ["keep every other byte, spaces and a lone CR included", [" a\rb \n"], [[1, " a\rb "]]],
  [
    "need no end at the end of the input",
    ["a\nb"],
    [
      [1, "a"],
      [2, "b"],
    ],
  ],
])("lines %s", async (_, pieces, wanted) => {
  const found: [number, string][] = [];
  for await (const lines of linesOf(arriving(pieces))) {
    for (const { number, bytes } of lines) found.push([number, bytes.toString()]);
  }
  expect(found).toEqual(wanted);
});
