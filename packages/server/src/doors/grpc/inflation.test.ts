import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { Inflations } from "./inflation.ts";

it("two requests expand at a time, and the others follow in their order, whether those fail or not", async () => {
  const inflations = new Inflations();
  const ends: (() => void)[] = [];
  const begun: number[] = [];
  const all = [0, 1, 2, 3].map((i) =>
    inflations.run(() => {
      begun.push(i);
      return new Promise<number>((resolve, reject) =>
        ends.push(() => (i === 0 ? reject(new Error("bad")) : resolve(i))),
      );
    }),
  );
  const outcomes = Promise.allSettled(all);
  await nextTurn();
  expect(begun).toEqual([0, 1]);
  ends[0]!();
  await nextTurn();
  expect(begun).toEqual([0, 1, 2]);
  ends[1]!();
  ends[2]!();
  await nextTurn();
  ends[3]!();
  expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled", "fulfilled"]);
});
