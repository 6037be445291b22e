/** The order of strings agrees with the order of their UTF-8 bytes. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareBytewise } from "./bytewise.ts";

const text = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.constantFrom("a", "\uFF5E", "\uE000", "\u{1F600}", "\u{10FFFF}") }),
);

describe("bytewise order", () => {
  it("is that of the UTF-8 bytes", () => {
    const property = fc.property(text, text, (a, b) => {
      expect(Math.sign(compareBytewise(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
    });
    fc.assert(property, { numRuns: 5_000 });
  });

  it("puts code points beyond U+FFFF last, which JavaScript's own order does not", () => {
    expect("\u{1F600}" < "\uFF5E").toBe(true);
    expect(compareBytewise("\u{1F600}", "\uFF5E")).toBeGreaterThan(0);
  });
});
