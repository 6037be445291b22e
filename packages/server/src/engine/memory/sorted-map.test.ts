import fc from "fast-check";
import { expect, test } from "vitest";
import { compareBytewise } from "../../core/bytewise.ts";
import { SortedMap } from "./sorted-map.ts";

const key = fc.string({ unit: fc.constantFrom("a", "b", "ü", "\u{1f600}"), maxLength: 4 });
const step = fc.oneof(fc.record({ set: key }), fc.record({ delete: key }));

test("keys that come and go are listed in order, from any key on, within any prefix", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), key, key, fc.nat(9), (steps, after, prefix, limit) => {
      const map = new SortedMap<number>(3);
      const model = new Map<string, number>();
      for (const [at, one] of steps.entries()) {
        if ("set" in one) {
          map.set(one.set, at);
          model.set(one.set, at);
        } else {
          map.delete(one.delete);
          model.delete(one.delete);
        }
      }
      expect(map.size).toBe(model.size);
      for (const [name, value] of model) expect(map.get(name)).toBe(value);
      const expected = [...model.keys()].filter((name) => name.startsWith(prefix) && compareBytewise(name, after) > 0);
      expect(map.keysAfter(after, limit, prefix)).toEqual(expected.sort(compareBytewise).slice(0, limit));
      expect(map.keysAfter("", 100)).toEqual([...model.keys()].filter((name) => name !== "").sort(compareBytewise));
    }),
    { numRuns: 300 },
  );
});
