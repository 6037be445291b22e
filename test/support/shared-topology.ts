/**
 * The connections to the shared Redis Cluster, opened once per worker for all stages. Opening them takes a processor fifty
 * milliseconds, most of it in the client's maps of sixteen thousand slots. `test/e2e/stage.ts` uses it; suites of the engine, of
 * several nodes and of failovers open connections of their own.
 *
 * Invariants: engines share only connections, and each has its own prefix. A closed engine hears nothing and opens nothing.
 */

import { RedisMeter } from "../../packages/server/src/engine/redis/meter.ts";
import { REDIS_LIMITS } from "../../packages/server/src/engine/redis/options.ts";
import { Topology } from "../../packages/server/src/engine/redis/topology.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { PATIENCE } from "./shared-redis.ts";

type Listener = Parameters<Topology["subscriber"]["on"]>[1];

let opening: Promise<Topology> | undefined;

/** For `openRedis`. */
export const sharedTopology: typeof Topology.open = async (urls) => {
  opening ??= Topology.open(urls, realWorld(), { ...REDIS_LIMITS, ...PATIENCE }, new RedisMeter());
  return viewOf(await opening);
};

/** The topology for one engine: it ends alone. */
function viewOf(all: Topology): Topology {
  const client = all.subscriber as Topology["subscriber"] & { off(event: string, listener: Listener): void };
  const channels = new Set<string>();
  const listeners: [string, Listener][] = [];
  const subscriber = {
    ssubscribe: (channel: string) => {
      channels.add(channel);
      return client.ssubscribe(channel);
    },
    sunsubscribe: (channel: string) => {
      channels.delete(channel);
      return client.sunsubscribe(channel);
    },
    on: (event: string, listener: Listener) => {
      listeners.push([event, listener]);
      client.on(event as "ready", listener);
    },
  };
  const view: Topology = Object.create(all, {
    subscriber: { value: subscriber },
    isClosed: { value: false, writable: true },
    close: {
      value: () => {
        view.isClosed = true;
        for (const [event, listener] of listeners) client.off(event, listener);
        for (const channel of channels) client.sunsubscribe(channel).catch(() => {});
      },
    },
  });
  return view;
}
