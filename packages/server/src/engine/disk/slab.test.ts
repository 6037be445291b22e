import fc from "fast-check";
import { expect, it } from "vitest";
import { keepForReaders, OWN_BYTES, type Piece, Slab } from "./slab.ts";

it("gives every taker a buffer of its own", () => {
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

it("reuses a piece when all of it was given back, and never one that a reader keeps", () => {
  const slab = new Slab();
  const piecesOf = (count: number) => {
    const taken = Array.from({ length: count }, () => ({ bytes: slab.take(1_000), piece: slab.lastPiece! }));
    return { taken, buffers: new Set(taken.map(({ bytes }) => bytes.buffer)) };
  };
  const first = piecesOf(1_000);
  keepForReaders(first.taken[0]!.piece);
  for (const { piece } of first.taken) slab.giveBack(piece);
  const second = piecesOf(1_000);
  expect(first.buffers.size).toBeGreaterThan(2);
  expect(second.buffers.has(first.taken[0]!.bytes.buffer)).toBe(false);
  const again = [...second.buffers].filter((buffer) => first.buffers.has(buffer));
  expect(again).toHaveLength(first.buffers.size - 1);
});

it("never gives out a buffer that was not given back", () => {
  const steps = fc.array(fc.record({ size: fc.nat({ max: 20_000 }), back: fc.nat() }), {
    size: "max",
    maxLength: 300,
  });
  fc.assert(
    fc.property(steps, (wanted) => {
      const slab = new Slab();
      const held: { bytes: Buffer; piece: Piece | undefined; mark: number }[] = [];
      for (const [i, { size, back }] of wanted.entries()) {
        held.push({ bytes: slab.take(size).fill(i % 251), piece: slab.lastPiece, mark: i % 251 });
        if (back % 3 > 0) slab.giveBack(held.splice(back % held.length, 1)[0]!.piece);
      }
      for (const { bytes, mark } of held) expect(bytes.every((byte) => byte === mark)).toBe(true);
    }),
    { numRuns: 100 },
  );
});

it("gives a large buffer memory of its own", () => {
  const slab = new Slab();
  slab.take(100);
  expect(slab.take(OWN_BYTES).buffer.byteLength).toBe(OWN_BYTES);
  expect(slab.take(100).buffer.byteLength).toBeGreaterThan(OWN_BYTES);
});
