/** The contract suite on the memory engine, which forgets everything when it is closed. */
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { manualWorld } from "../support/world.ts";
import { describeEngine } from "./engine-suite.ts";

describeEngine("memory", async () => {
  const world = manualWorld(1);
  const engine = openMemory({ world });
  return { engine, advance: world.advance, close: () => engine.close() };
});
