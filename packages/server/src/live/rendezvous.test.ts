/** Which hub a session belongs to. */
import { expect, it } from "vitest";
import { hubFor } from "./rendezvous.ts";

const HUBS = ["hub-1", "hub-2", "hub-3", "hub-4"];
const SESSIONS = Array.from({ length: 4_000 }, (_, i) => `00000000-0000-4000-8000-${String(i).padStart(12, "0")}`);
const choices = (hubs: readonly string[]) => SESSIONS.map((session) => hubFor(session, hubs));

it("chooses no hub when there is none", () => {
  expect(hubFor("s", [])).toBeUndefined();
});

it("chooses the same hub in whatever order the hubs are listed", () => {
  expect(choices([...HUBS].reverse())).toEqual(choices(HUBS));
});

it("spreads sessions evenly, within a fifth", () => {
  const counts = new Map<string | undefined, number>();
  for (const hub of choices(HUBS)) counts.set(hub, (counts.get(hub) ?? 0) + 1);
  for (const hub of HUBS) {
    expect(counts.get(hub)).toBeGreaterThan(800);
    expect(counts.get(hub)).toBeLessThan(1_200);
  }
});

it("moves only the sessions of a hub that leaves, and only to a hub that joins", () => {
  const before = choices(HUBS);
  const without = choices(HUBS.slice(0, 3));
  before.forEach((hub, i) => {
    if (hub !== "hub-4") expect(without[i]).toBe(hub);
  });
  const joined = choices([...HUBS, "hub-5"]);
  const moved = joined.filter((hub, i) => hub !== before[i]);
  expect(new Set(moved)).toEqual(new Set(["hub-5"]));
  expect(moved.length).toBeLessThan(1_000);
});
