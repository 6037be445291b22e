/**
 * The contract suite on the disk engine, three times: with everything still in the journal, with everything applied to the
 * store as soon as it is durable and no tail cached, and with the apply worker in its thread.
 */
import type { Limits } from "../../packages/server/src/engine/disk/limits.ts";
import { type DiskPorts, openDisk, openWith } from "../../packages/server/src/engine/disk/open.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { manualWorld } from "../support/world.ts";
import { describeEngine, type OpenEngine } from "./engine-suite.ts";

const SMALL: Partial<Limits> = { segmentBytes: 1 << 18 };

function onDisk(limits: Partial<Limits>, ports?: DiskPorts): OpenEngine {
  return async () => {
    const world = manualWorld(1);
    const { dir, remove } = temporaryDir();
    const open = () => (ports ? openWith({ dir, world, limits }, ports) : openDisk({ dir, world, limits }));
    let engine = await open();
    return {
      engine,
      advance: world.advance,
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

describeEngine("disk, read from the journal's overlay", onDisk(SMALL, inlinePorts()));
describeEngine("disk, read from the store", onDisk({ ...SMALL, applyBytes: 1, tailBytes: 0 }, inlinePorts()));
describeEngine("disk, applied by its thread", onDisk({ ...SMALL, applyBytes: 1, tailBytes: 0 }));
