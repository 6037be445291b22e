/**
 * The disk engine for the suites that run on every engine: in a directory of its own, closed and opened again at will. `EAGER`
 * applies everything to the store at once, through many small segments, and keeps nothing in memory. So its reads come from the
 * store, where the default reads come from memory.
 */
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import type { Limits } from "../../packages/server/src/engine/disk/defaults.ts";
import { openDisk, openWith } from "../../packages/server/src/engine/disk/open.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { manualWorld } from "../support/world.ts";
import type { OpenEngine } from "./engine-suite.ts";

export const EAGER: Partial<Limits> = { segmentBytes: 64 * 1_024, applyBytes: 1, tailBytes: 0, keptStates: 0 };

/** Most tests run the applier inline, because its own thread costs a quarter of a second per opening. */
export function diskOpener(applier: "inline" | "thread", limits: Partial<Limits> = {}): OpenEngine {
  return async () => {
    const { dir, remove } = temporaryDir();
    const world = manualWorld(1);
    const options = { dir, world, limits };
    const open = (): Promise<Engine> => (applier === "thread" ? openDisk(options) : openWith(options, inlinePorts()));
    let engine = await open();
    return {
      engine,
      world,
      advance: world.advance,
      setClock: world.setClock,
      async reopen() {
        await engine.close();
        engine = await open();
        return engine;
      },
      async close() {
        await engine.close();
        remove();
      },
    };
  };
}
