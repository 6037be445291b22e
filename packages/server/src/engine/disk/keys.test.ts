import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareBytewise } from "../../core/bytewise.ts";
import {
  afterPrefix,
  afterProject,
  directoryKey,
  justAfter,
  logFirstSeq,
  logGeneration,
  logKey,
  MAX_KEY_BYTES,
  projectOf,
  readNumber,
  reminderKey,
  reminderNumber,
  rowKey,
  rowSuffix,
  writeNumber,
} from "./keys.ts";

const number = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const text = fc.string({ unit: "grapheme", maxLength: 12 });
const sign = (n: number): number => Math.sign(n);

describe("keys", () => {
  it("sort like their numbers, and decode to them", () => {
    fc.assert(
      fc.property(number, number, number, number, (a, b, c, d) => {
        const bytes = Buffer.alloc(8);
        writeNumber(bytes, 0, a);
        expect(readNumber(bytes, 0)).toBe(a);
        const [one, two] = [logKey(5, a, b), logKey(5, c, d)];
        expect(sign(one.compare(two))).toBe(sign(a - c || b - d));
        expect([logGeneration(one), logFirstSeq(one)]).toEqual([a, b]);
        expect(reminderNumber(reminderKey(a, b))).toBe(b);
      }),
    );
  });

  it("sort ids and row keys bytewise", () => {
    fc.assert(
      fc.property(text, text, (a, b) => {
        const order = sign(compareBytewise(a, b));
        expect(sign(directoryKey("p", "k", a).compare(directoryKey("p", "k", b)))).toBe(order);
        expect(sign(rowKey(3, rowSuffix("t", a)).compare(rowKey(3, rowSuffix("t", b))))).toBe(order);
      }),
    );
  });

  it("of one project lie together, and the next project starts behind them", () => {
    fc.assert(
      fc.property(text, fc.constantFrom("a", "a-b", "a0", "aa", "b"), (id, other) => {
        const key = directoryKey("a", "k", id);
        expect(projectOf(key)).toBe("a");
        expect(key.compare(afterProject("a"))).toBeLessThan(0);
        if (other !== "a") expect(directoryKey(other, "k", id).compare(afterProject("a"))).toBeGreaterThan(0);
      }),
    );
  });

  it("between a prefix and its end all start with the prefix", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 4 }), fc.uint8Array({ maxLength: 6 }), (prefix, other) => {
        fc.pre(prefix.some((byte) => byte !== 0xff));
        const [first, key] = [Buffer.from(prefix), Buffer.from(other)];
        const inside = key.compare(first) >= 0 && key.compare(afterPrefix(first)) < 0;
        // A key that ends in a run of 0xff has no next sibling; its end is that of the shorter prefix.
        const trimmed = first.subarray(0, first.findLastIndex((byte) => byte !== 0xff) + 1);
        if (key.subarray(0, first.length).equals(first)) expect(inside).toBe(true);
        if (inside) expect(key.subarray(0, trimmed.length).equals(trimmed)).toBe(true);
        expect(justAfter(key).compare(key)).toBeGreaterThan(0);
      }),
    );
  });

  it("take the longest allowed names, and reject longer ones than the store holds", () => {
    expect(directoryKey("p".repeat(100), "subscription", "i".repeat(1_100)).length).toBeLessThan(MAX_KEY_BYTES);
    expect(rowKey(1, rowSuffix("t".repeat(100), "k".repeat(1_024))).length).toBeLessThan(MAX_KEY_BYTES);
    expect(() => directoryKey("p", "k", "i".repeat(2_000))).toThrow(RangeError);
    expect(() => directoryKey("p\0", "k", "i")).toThrow(RangeError);
  });
});
