import { expect, it } from "vitest";
import { type Entity, entity, type Head, NO_HEAD } from "../contract.ts";
import { CREATED, DESTROYED } from "./commit-block.ts";
import { Overlay } from "./overlay.ts";
import { StoredCache } from "./stored-cache.ts";
import { ABSENT } from "./view.ts";

const MAX_KEPT = 3;
const head: Head = { ...NO_HEAD, generation: 1 };

/** An overlay without messages, and commits that are durable at once. */
function made() {
  const overlay = new Overlay(0, { appliedThrough: 0, destroyedGeneration: 0 }, new StoredCache(1_000), MAX_KEPT);
  let lsn = 0;
  const commit = (e: Entity, flags = 0) => {
    const state = overlay.states.get(e.key) ?? overlay.hold(e, ABSENT);
    const outcome = { number: 1, head, remindAtMs: null, flags };
    overlay.add({
      lsn: ++lsn,
      state,
      encoded: { block: Buffer.alloc(0), piece: undefined, appends: [], rows: [] },
      outcome,
    });
    return state;
  };
  const applied = () => overlay.applied(lsn);
  const known = () => [...overlay.states.values()].map((state) => state.entity.id);
  return { overlay, commit, applied, known };
}

const stream = (id: string) => entity("p", "stream", id);

it("keeps the states of the entities that changed last, although the store has them", () => {
  const { commit, applied, known } = made();
  const first = commit(stream("a"), CREATED);
  applied();
  expect(commit(stream("a"))).toBe(first);
  applied();
  for (const id of ["b", "c", "d", "e"]) {
    commit(stream(id), CREATED);
    applied();
  }
  expect(known()).toEqual(["c", "d", "e"]);
});

it("keeps every state that the store lacks, however many they are", () => {
  const { commit, applied, known } = made();
  for (const id of ["a", "b", "c"]) commit(stream(id), CREATED);
  applied();
  const later = ["d", "e", "f", "g", "h"];
  for (const id of ["a", "b", "c", ...later]) commit(stream(id));
  expect(known()).toEqual(["a", "b", "c", ...later]);
  applied();
  expect(known()).toEqual(["f", "g", "h"]);
});

it("forgets a destroyed entity, kept before or not", () => {
  const { commit, applied, known } = made();
  commit(stream("a"), CREATED | DESTROYED);
  commit(stream("b"), CREATED);
  commit(stream("c"), CREATED);
  applied();
  expect(known()).toEqual(["b", "c"]);
  commit(stream("b"), DESTROYED);
  applied();
  expect(known()).toEqual(["c"]);
});

it.each([
  ["no commit far", 1_000, 0, 0.1],
  ["every commit far", 3_000, 0.9, 1],
])("finds %s if %d entities change in turn", (_, entities, least, most) => {
  const { overlay, commit } = made();
  for (let i = 0; i < 3 * entities; i++) commit(stream(`s${i % entities}`));
  expect(overlay.farShare).toBeGreaterThanOrEqual(least);
  expect(overlay.farShare).toBeLessThanOrEqual(most);
});
