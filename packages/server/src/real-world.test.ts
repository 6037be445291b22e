/** The real world's edges: a delay too long for one timer, and cancelling. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { realWorld } from "./real-world.ts";

const DAY_MS = 86_400_000;

describe("the real world", () => {
  afterEach(() => void vi.useRealTimers());

  it("waits longer than one timer can", () => {
    vi.useFakeTimers();
    const fired: string[] = [];
    realWorld().after(60 * DAY_MS, () => fired.push("after 60 days"));
    vi.advanceTimersByTime(60 * DAY_MS - 1);
    expect(fired).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(fired).toEqual(["after 60 days"]);
  });

  it("forgets a task that was cancelled, also after its first stretch", () => {
    vi.useFakeTimers();
    const fired: string[] = [];
    const { after } = realWorld();
    const cancels = [after(5, () => fired.push("short")), after(60 * DAY_MS, () => fired.push("long"))];
    cancels[0]!();
    vi.advanceTimersByTime(40 * DAY_MS);
    cancels[1]!();
    vi.advanceTimersByTime(40 * DAY_MS);
    expect(fired).toEqual([]);
  });

  it("gives as many random bytes as asked, different ones each time", () => {
    const { randomBytes } = realWorld();
    expect(randomBytes(16).length).toBe(16);
    expect(randomBytes(16)).not.toEqual(randomBytes(16));
  });
});
