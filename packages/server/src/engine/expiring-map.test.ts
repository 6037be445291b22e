/** An expiring map shows no ended value, keeps none for long, and drops no living one. */
import { describe, expect, it } from "vitest";
import { ExpiringMap } from "./expiring-map.ts";
import { WindowCounter } from "./window-counter.ts";

describe("an expiring map", () => {
  it("shows a value until its time", () => {
    const map = new ExpiringMap<{ untilMs: number }>(10);
    map.set("k", { untilMs: 5 }, 0);
    expect(map.get("k", 4)).toEqual({ untilMs: 5 });
    expect(map.get("k", 5)).toBeUndefined();
  });

  it("stays small while values come and expire", () => {
    const map = new ExpiringMap<{ untilMs: number }>(1_000_000);
    let largest = 0;
    for (let now = 0; now < 100_000; now++) {
      map.set(`k${now}`, { untilMs: now + 100 }, now);
      largest = Math.max(largest, map.size);
    }
    expect(largest).toBeLessThan(2_000);
  });

  it("refuses values beyond its maximum, keeps living ones, and takes new values when some have ended", () => {
    const map = new ExpiringMap<{ untilMs: number }>(3);
    for (const key of ["a", "b", "c"]) map.set(key, { untilMs: 5 }, 0);
    expect(() => map.set("d", { untilMs: 9 }, 4)).toThrow(expect.objectContaining({ code: "overloaded" }));
    map.set("a", { untilMs: 6 }, 4);
    expect([map.get("a", 4), map.get("b", 4)]).toEqual([{ untilMs: 6 }, { untilMs: 5 }]);
    map.set("d", { untilMs: 9 }, 5);
    expect([map.get("a", 5), map.get("b", 5), map.get("d", 5)]).toEqual([{ untilMs: 6 }, undefined, { untilMs: 9 }]);
  });

  it("makes a full window counter refuse rather than allow too much", () => {
    const counter = new WindowCounter(2);
    counter.hit("a", 1, 1_000, 0);
    counter.hit("b", 1, 1_000, 0);
    expect(() => counter.hit("c", 1, 1_000, 0)).toThrow(expect.objectContaining({ code: "overloaded" }));
    expect(counter.hit("a", 1, 1_000, 0).kind).toBe("limited");
    expect(counter.hit("c", 1, 1_000, 1_000)).toEqual({ kind: "allowed", remaining: 0 });
  });
});
