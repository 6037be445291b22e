import { expect, it } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Engine, type Entity, entity } from "./contract.ts";
import { Sweeper } from "./sweeper.ts";

const LIMITS = { everyMs: 500, batch: 2, rounds: 100 };

/** A sweeper over entities that are due until a handler takes them. `swept` lists the calls of the handlers. */
function setUp(due: Entity[], fails: (e: Entity) => boolean = () => false) {
  const world = manualWorld(1);
  const swept: string[] = [];
  const reports: (string | undefined)[] = [];
  const engine = { shards: 1, due: (_: number, limit: number) => due.slice(0, limit) } as unknown as Engine;
  const sweeper = new Sweeper(engine, world, (e) => reports.push(e?.id), LIMITS);
  for (const [kind, batch] of Object.entries({ one: 1, many: 10 })) {
    const sweep = async (entities: readonly Entity[]) => {
      swept.push(entities.map(({ id }) => id).join("+"));
      if (entities.some(fails)) throw new Error("no");
      for (const e of entities) due.splice(due.indexOf(e), 1);
    };
    sweeper.handle({ kind, batch, sweep });
  }
  return { world, sweeper, swept, reports };
}

const of = (kind: string) => (id: string) => entity("p", kind, id);

it("a pass continues while the shard returns full batches, and hands each kind as many as it takes", async () => {
  const { sweeper, swept } = setUp([...["a", "b", "c"].map(of("many")), ...["d", "e"].map(of("one"))]);
  await sweeper.sweepAll();
  expect(swept).toEqual(["a+b", "c", "d", "e"]);
});

it("an entity that fails is reported and waits for the next pass, and the others are swept", async () => {
  const { sweeper, swept, reports } = setUp(["a", "b"].map(of("one")), ({ id }) => id === "a");
  await sweeper.sweepAll();
  expect([swept, reports]).toEqual([["a", "b"], ["a"]]);
  await sweeper.sweepAll();
  expect([swept.slice(2), reports.slice(1)]).toEqual([["a"], ["a"]]);
});

it("passes follow each other at the interval until the sweeper is stopped", async () => {
  const due = ["a"].map(of("one"));
  const { world, sweeper, swept } = setUp(due);
  sweeper.start();
  for (const id of ["b", "c"]) {
    world.advance(LIMITS.everyMs);
    await new Promise((resolve) => setImmediate(resolve));
    due.push(of("one")(id));
  }
  await sweeper.stop();
  world.advance(10 * LIMITS.everyMs);
  await new Promise((resolve) => setImmediate(resolve));
  expect(swept).toEqual(["a", "b"]);
});
