import { expect, test } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import { SlotsWatch } from "./slots-watch.ts";

const EVERY_MS = 1_000;
const turns = async () => {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};
const node = (name: string) => [Buffer.from(name), 1, Buffer.from(`id of ${name}`), []];

/** A cluster of `a` and `b` with two replicas each, as its client knows it, and its answer to the next look. */
function watched() {
  const world = manualWorld(1);
  const known = [...Array(5).fill(["a:1", "x:1", "y:1"]), ...Array(5).fill(["b:1", "z:1"])] as string[][];
  const asked: string[] = [];
  let refreshes = 0;
  const cluster = { isUp: true, slots: [] as unknown[] };
  const watch = new SlotsWatch({
    known: () => known,
    refresh: () => refreshes++,
    masters: () => ["a:1", "b:1"],
    connect: (name) => ({
      ask: async () => {
        asked.push(name);
        if (!cluster.isUp) throw new Error("no answer");
        return cluster.slots;
      },
    }),
    slots: [0, 4, 7],
    everyMs: EVERY_MS,
    world,
  });
  const look = async (slots: unknown[]) => {
    cluster.slots = slots;
    const before = refreshes;
    world.advance(EVERY_MS);
    await turns();
    return refreshes - before;
  };
  return { watch, world, asked, look, cluster, refreshes: () => refreshes };
}

const a = [node("a"), node("x"), node("y")];
const b = [node("b"), node("z")];

test.each([
  [
    "nothing has changed",
    [
      [0, 4, ...a],
      [5, 9, ...b],
    ],
    0,
  ],
  [
    "a node lists the replicas in another order",
    [
      [0, 4, node("a"), node("y"), node("x")],
      [5, 9, ...b],
    ],
    0,
  ],
  [
    "a slot that holds no bucket has moved",
    [
      [0, 0, ...a],
      [1, 1, ...b],
      [2, 4, ...a],
      [5, 9, ...b],
    ],
    0,
  ],
  [
    "a replica has become the master",
    [
      [0, 4, ...a],
      [5, 9, node("z"), node("b")],
    ],
    1,
  ],
  [
    "a single slot has moved",
    [
      [0, 3, ...a],
      [4, 9, ...b],
    ],
    1,
  ],
  [
    "a slot amid a range of its new master has moved",
    [
      [0, 6, ...a],
      [7, 7, ...a],
      [8, 9, ...b],
    ],
    1,
  ],
  [
    "a replica is new",
    [
      [0, 4, ...a, node("w")],
      [5, 9, ...b],
    ],
    1,
  ],
  [
    "a replica is gone",
    [
      [0, 4, node("a"), node("x")],
      [5, 9, ...b],
    ],
    1,
  ],
  ["a bucket has no master", [[0, 4, ...a]], 1],
])("if %s, a look at the slots causes %i refreshes", async (_, slots, refreshes) => {
  const { look } = watched();
  expect(await look(slots)).toBe(refreshes);
});

test("every look asks another master, and one that does not answer causes a refresh", async () => {
  const { look, asked, cluster } = watched();
  cluster.isUp = false;
  expect(await look([])).toBe(1);
  cluster.isUp = true;
  const whole = [
    [0, 4, ...a],
    [5, 9, ...b],
  ];
  expect([await look(whole), await look(whole)]).toEqual([0, 0]);
  expect(asked).toEqual(["a:1", "b:1", "a:1"]);
});

test("many requests for a refresh cause one at once and one later", async () => {
  const { watch, world, refreshes } = watched();
  for (let i = 0; i < 50; i++) watch.refresh();
  expect(refreshes()).toBe(1);
  world.advance(EVERY_MS / 2);
  expect(refreshes()).toBe(2);
  watch.refresh();
  expect(refreshes()).toBe(3);
});

test("a closed watch looks and refreshes no more", async () => {
  const { watch, world, refreshes } = watched();
  watch.refresh();
  watch.refresh();
  watch.close();
  watch.refresh();
  world.advance(10 * EVERY_MS);
  await turns();
  expect(refreshes()).toBe(1);
  expect(world.nextInMs()).toBe(Number.POSITIVE_INFINITY);
});
