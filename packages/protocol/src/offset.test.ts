import fc from "fast-check";
import { expect, test } from "vitest";
import { comparePositions, formatOffset, parseOffset } from "./offset.ts";

const position = fc.record({ generation: fc.maxSafeNat(), seq: fc.maxSafeNat() });

test("an offset reads back as the position it was made from", () => {
  fc.assert(fc.property(position, (p) => void expect(parseOffset(formatOffset(p))).toEqual(p)));
});

test("offsets compare as text the way positions compare", () => {
  fc.assert(
    fc.property(position, position, (a, b) => {
      const [x, y] = [formatOffset(a), formatOffset(b)];
      expect(Math.sign(comparePositions(a, b))).toBe(x < y ? -1 : x > y ? 1 : 0);
    }),
  );
});

test("any other text is no offset", () => {
  for (const text of [
    "",
    "-1",
    "now",
    "1_2",
    "0000000000000001-0000000000000001",
    `${"9".repeat(16)}_${"0".repeat(16)}`,
    " ",
  ]) {
    expect(parseOffset(text)).toBeUndefined();
  }
});
