/** The contract suite on the memory engine, which forgets everything on close, and the behaviors of that engine alone. */
import { describe, expect, it } from "vitest";
import { type Effect, entity } from "../../packages/server/src/engine/contract.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { manualWorld } from "../support/world.ts";
import { describeEngine } from "./engine-suite.ts";

describeEngine("memory", async () => {
  const world = manualWorld(1);
  const engine = openMemory({ world });
  const { advance, setClock } = world;
  return { engine, world, advance, setClock, close: () => engine.close() };
});

describe("memory alone", () => {
  const e = entity("p", "stream", "a");
  const put: Effect = { op: "put", table: "t", key: "k", value: new Uint8Array(1) };

  it("changes nothing in a commit that no correct caller sends", async () => {
    const engine = openMemory({ world: manualWorld(1) });
    const append: Effect = { op: "append", messages: [{ payload: new Uint8Array(1), at: 1 }] };
    const defective: Effect[][] = [
      [put, append],
      [put, { op: "destroy" }, put],
    ];
    for (const effects of defective) {
      await expect(engine.commit(e, { rev: 0 }, effects)).rejects.toThrow();
      expect(await engine.load(e, [{ table: "t", key: "k" }])).toMatchObject({ rev: 0, rows: [undefined] });
      expect(await engine.list("p", "stream", "", "", 10)).toEqual({ ids: [], next: undefined });
    }
  });

  it("offers generations above those of an earlier process", async () => {
    const world = manualWorld(1);
    const earlier = openMemory({ world });
    const { nextGeneration: generation } = await earlier.load(e, []);
    await earlier.commit(e, { rev: 0 }, [{ op: "begin", generation, at: { generation, seq: 0 } }, put]);
    await earlier.close();
    world.advance(2);
    const later = openMemory({ world });
    expect((await later.load(e, [])).rev).toBe(0);
    expect((await later.load(e, [])).nextGeneration).toBeGreaterThan(generation);
  });
});
