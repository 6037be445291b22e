/**
 * An engine of each kind on the clock of a test: memory, real files with real flushes, or a real Redis Cluster. The tests of pull
 * open one each.
 *
 * Invariants: it ends with its test, and shares no data with another test.
 */
import { onTestFinished } from "vitest";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import type { EngineName } from "../e2e/server.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import type { QuietWorld } from "../support/quiet-world.ts";
import { sharedRedis } from "../support/shared-redis.ts";

export async function pullEngine(name: EngineName, world: QuietWorld): Promise<Engine> {
  const engine = await OPENERS[name](world);
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= engine.close());
  onTestFinished(close);
  return world.counted(engineWith(engine, { close }));
}

/** The same engine with some of its members replaced. */
export function engineWith(engine: Engine, parts: Partial<Engine>): Engine {
  return new Proxy(engine, {
    get: (of, name) => {
      if (Object.hasOwn(parts, name)) return parts[name as keyof Engine];
      const value = of[name as keyof Engine];
      return typeof value === "function" ? value.bind(of) : value;
    },
  });
}

const OPENERS: Readonly<Record<EngineName, (world: QuietWorld) => Promise<Engine>>> = {
  memory: async (world) => openMemory({ world }),
  disk(world) {
    const { dir, remove } = temporaryDir();
    onTestFinished(remove);
    return openWith({ dir, world }, inlinePorts());
  },
  redis: redisOnTheClockOf,
};

/** By the clock of Redis, which no test moves: longer than a test takes on any machine. */
const CLAIM_MS = 600_000;

/** Time-outs and connections keep real time. What the feature takes for the cluster's time is the test's. */
async function redisOnTheClockOf(world: QuietWorld): Promise<Engine> {
  const { urls, prefix, ...limits } = sharedRedis();
  const engine = await openRedis({ urls, prefix, world: realWorld(), limits });
  return engineWith(engine, {
    now: () => world.now(),
    claim: (entity, node, _ttlMs, held) => engine.claim(entity, node, CLAIM_MS, held),
  });
}
