import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Engine, EngineError, entity } from "./contract.ts";
import { put } from "./draft.ts";
import { Keepers, type Rule } from "./keeper.ts";
import { openMemory } from "./memory/memory.ts";
import { jsonTable } from "./table.ts";

const counts = jsonTable<number>("count");
const e = entity("p", "test", "a");
const add: Rule<number> = (view) => {
  const count = (view.get(counts, "") ?? 0) + 1;
  return { outcome: count, changes: [put(counts, "", count)] };
};

test("commits, the inputs that share them, conflicts and failures are counted", async () => {
  const memory = await openMemory({ world: manualWorld(1) });
  const engine = Object.create(memory) as Engine;
  engine.commit = (...args) => memory.commit(...args);
  const [keepers, other] = [new Keepers(engine, setImmediate), new Keepers(memory, setImmediate)];
  await Promise.all(Array.from({ length: 5 }, () => keepers.submit(e, [counts.at("")], add)));
  expect(keepers.meter).toMatchObject({ commits: 1, conflicts: 0, failures: 0 });
  expect(keepers.meter.batch).toMatchObject({ sum: 5, count: 1 });

  await other.submit(e, [counts.at("")], add);
  expect(await keepers.submit(e, [counts.at("")], add)).toBe(7);
  expect(keepers.meter).toMatchObject({ commits: 2, conflicts: 1, failures: 0 });

  engine.commit = () => Promise.reject(new EngineError("storage-full", "no room"));
  await expect(keepers.submit(e, [counts.at("")], add)).rejects.toThrow("no room");
  expect(keepers.meter).toMatchObject({ commits: 2, conflicts: 1, failures: 1 });
});
