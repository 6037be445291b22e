import fc from "fast-check";
import { expect, it } from "vitest";
import { OWN_BYTES, Slab } from "./slab.ts";

it("gives everybody a place of their own", () => {
  const sizes = fc.array(fc.oneof(fc.nat({ max: 300 }), fc.nat({ max: 2 * OWN_BYTES })), {
    size: "max",
    maxLength: 200,
  });
  fc.assert(
    fc.property(sizes, (wanted) => {
      const slab = new Slab();
      const taken = wanted.map((size, i) => slab.take(size).fill(i % 251));
      for (const [i, bytes] of taken.entries()) {
        expect(bytes.length).toBe(wanted[i]);
        expect(bytes.every((byte) => byte === i % 251)).toBe(true);
      }
    }),
    { numRuns: 50 },
  );
});

it("gives what is large memory that nobody shares", () => {
  const slab = new Slab();
  slab.take(100);
  expect(slab.take(OWN_BYTES).buffer.byteLength).toBe(OWN_BYTES);
  expect(slab.take(100).buffer.byteLength).toBeGreaterThan(OWN_BYTES);
});
