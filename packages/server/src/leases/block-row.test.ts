import fc from "fast-check";
import { expect, test } from "vitest";
import { BLOCK, decodeBlock, encodeBlock, newBlock } from "./block-row.ts";

test("a block is decoded as it was encoded", () => {
  const index = fc.nat({ max: BLOCK - 1 });
  const pairs = (value: fc.Arbitrary<number>) => fc.array(fc.tuple(index, value), { maxLength: 20 });
  const attempts = pairs(fc.integer({ min: 1, max: 65_535 }));
  const delays = pairs(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }));
  fc.assert(
    fc.property(fc.array(index, { maxLength: 200 }), attempts, delays, (acked, attempts, delays) => {
      const block = { ...newBlock(), attempts: new Map(attempts), delays: new Map(delays) };
      for (const i of acked) block.acked[i >> 3]! |= 1 << (i & 7);
      const decoded = decodeBlock(encodeBlock(block));
      expect({ ...decoded, acked: decoded.acked.join() }).toEqual({ ...block, acked: block.acked.join() });
    }),
  );
});

test("an empty block takes seven bytes", () => {
  expect(encodeBlock(newBlock())).toHaveLength(7);
});

test("a block of an unknown version is refused", () => {
  expect(() => decodeBlock(Uint8Array.of(2, 0, 0, 0, 0, 0, 0))).toThrow("version 2");
});
