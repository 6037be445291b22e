import fc from "fast-check";
import { expect, it } from "vitest";
import { Fifo } from "./fifo.ts";

it("gives items back in the order in which they came, however often it was empty", () => {
  const steps = fc.array(fc.record({ isPush: fc.boolean(), count: fc.integer({ min: 1, max: 600 }) }), {
    maxLength: 60,
  });
  fc.assert(
    fc.property(steps, (wanted) => {
      const queue = new Fifo<number>();
      const model: number[] = [];
      let next = 0;
      const check = () => {
        expect([queue.length, queue.at(0), queue.last()]).toEqual([model.length, model[0], model.at(-1)]);
        const middle = model.length >> 1;
        expect(queue.at(middle)).toBe(model[middle]);
        expect(queue.at(model.length)).toBeUndefined();
      };
      for (const step of wanted) {
        for (let i = 0; i < step.count; i++) {
          if (step.isPush) {
            model.push(next);
            queue.push(next++);
          } else expect(queue.shift()).toBe(model.shift());
        }
        check();
      }
    }),
    { numRuns: 200 },
  );
});
