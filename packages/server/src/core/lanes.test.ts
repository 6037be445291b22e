import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { FairQueue } from "./fair-queue.ts";
import { Lanes } from "./lanes.ts";
import { SharedLimit } from "./shared-limit.ts";

describe("a fair queue", () => {
  test("takes from the projects in turn, and keeps the order within each", () => {
    const queue = new FairQueue<string>();
    for (const item of ["a1", "a2", "a3", "b1", "c1", "c2"]) queue.push(item[0]!, item);
    expect(queue.length).toBe(6);
    expect(Array.from({ length: 4 }, () => queue.shift())).toEqual(["a1", "b1", "c1", "a2"]);
    queue.push("b", "b2");
    expect(Array.from({ length: 4 }, () => queue.shift())).toEqual(["c2", "a3", "b2", undefined]);
    expect(queue.length).toBe(0);
  });

  test("passes over a project that must not go now, and keeps its turn", () => {
    const queue = new FairQueue<string>();
    for (const item of ["a1", "b1", "b2"]) queue.push(item[0]!, item);
    expect(queue.shift((project) => project !== "a")).toBe("b1");
    expect([queue.shift(), queue.shift()]).toEqual(["a1", "b2"]);
    queue.push("a", "a2");
    expect([queue.shift(() => false), queue.length]).toEqual([undefined, 1]);
  });

  test("loses nothing of a long line", () => {
    const queue = new FairQueue<number>();
    const numbers = Array.from({ length: 2_000 }, (_, i) => i);
    for (const i of numbers) queue.push("a", i);
    expect(numbers.map(() => queue.shift())).toEqual(numbers);
  });
});

describe("lanes", () => {
  function lanesOf(max: number, sharePercent?: number) {
    const limit = new SharedLimit({ setting: "s", noun: "n", max, code: "overloaded", sharePercent });
    const lanes = new Lanes(limit);
    const begun: string[] = [];
    const ends = new Map<string, (fault?: Error) => void>();
    const run = (name: string) =>
      lanes.run(name[0]!, () => {
        begun.push(name);
        return new Promise<string>((resolve, reject) => {
          ends.set(name, (fault) => (fault === undefined ? resolve(name) : reject(fault)));
        });
      });
    const end = async (name: string, fault?: Error) => {
      ends.get(name)!(fault);
      await turn();
    };
    return { lanes, begun, run, end };
  }

  test("run a limited number of pieces at a time, and the next one when a piece ends or fails", async () => {
    const { lanes, begun, run, end } = lanesOf(2);
    const results = Promise.allSettled(["a1", "a2", "a3", "a4"].map(run));
    expect([begun, lanes.active, lanes.waiting]).toEqual([["a1", "a2"], 2, 2]);
    await end("a2", new Error("failed"));
    await end("a1");
    expect([begun, lanes.active, lanes.waiting]).toEqual([["a1", "a2", "a3", "a4"], 2, 0]);
    await end("a3");
    await end("a4");
    expect((await results).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    expect(lanes.active).toBe(0);
  });

  test("stay free for other projects while the pieces of one project hang", async () => {
    const { begun, run, end } = lanesOf(4, 50);
    for (const name of ["a1", "a2", "a3", "b1", "b2", "c1"]) void run(name);
    expect(begun).toEqual(["a1", "a2", "b1", "b2"]);
    // The lane goes to the project that has none, and not to the one that is at its share.
    await end("b1");
    expect(begun.at(-1)).toBe("c1");
    await end("c1");
    expect(begun.at(-1)).toBe("c1");
    await end("a1");
    expect(begun.at(-1)).toBe("a3");
  });

  test("are taken in turn when more projects wait than there are lanes", async () => {
    const { begun, run, end } = lanesOf(1);
    for (const name of ["a1", "a2", "a3", "b1", "c1"]) void run(name);
    for (const name of ["a1", "a2", "b1", "c1"]) await end(name);
    expect(begun).toEqual(["a1", "a2", "b1", "c1", "a3"]);
  });
});
