/** The Redis engine for the suites that run on every engine: each opening has a prefix of its own, and time is real. */
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import type { RedisLimits } from "../../packages/server/src/engine/redis/options.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { sleep } from "../support/eventually.ts";
import { PATIENCE } from "../support/shared-redis.ts";
import type { OpenEngine } from "./engine-suite.ts";

export interface EmptyRedis {
  readonly urls: readonly string[];
  readonly prefix: string;
}

export function redisOpener(redis: () => EmptyRedis, limits: Partial<RedisLimits> = {}): OpenEngine {
  return async () => {
    const place = redis();
    let aheadMs = 0;
    const real = realWorld();
    const world = { ...real, now: () => real.now() + aheadMs };
    const open = (): Promise<Engine> => openRedis({ ...place, world, limits: { ...PATIENCE, ...limits } });
    let engine = await open();
    const peers: Engine[] = [];
    return {
      engine,
      world,
      // A timer may fire a moment early, and the cluster's clock differs from this process's.
      advance: (ms) => sleep(ms + 20),
      setClock(byMs) {
        aheadMs += byMs;
      },
      async reopen() {
        await engine.close();
        engine = await open();
        return engine;
      },
      async openPeer() {
        const peer = await open();
        peers.push(peer);
        return peer;
      },
      async close() {
        await Promise.all([engine, ...peers].map((one) => one.close()));
      },
    };
  };
}
