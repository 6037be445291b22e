import fc from "fast-check";
import { expect, it } from "vitest";
import { isLonger, utf8 } from "./bytes.ts";

it("a text is compared with a byte limit correctly, whatever its characters", () => {
  const characters = fc.string({ unit: "binary", maxLength: 40 });
  fc.assert(
    fc.property(characters, fc.integer({ min: 0, max: 130 }), (text, bytes) => {
      expect(isLonger(text, bytes)).toBe(utf8(text).length > bytes);
    }),
  );
  for (const text of ["", "a", "ä", "€", "\u{1f30a}", "\ud800"]) {
    const { length } = utf8(text);
    expect(isLonger(text, length)).toBe(false);
    if (length > 0) expect(isLonger(text, length - 1)).toBe(true);
  }
});
