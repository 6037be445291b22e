/**
 * Pull: subscriptions with leases on single messages, for the library, the WebSocket `/pull` and the gRPC door. Compose calls it;
 * `docs/pubsub.md` tells how it works.
 */
import { route } from "../core/route.ts";
import { type Feature, type Kernel, kindOf } from "../feature.ts";
import type { Streams } from "../streams/service.ts";
import { PullConnections } from "./connection.ts";
import type { PullLimits } from "./defaults.ts";
import { describePull } from "./describe.ts";
import { pullMetrics } from "./metrics.ts";
import { DispatcherRegistry } from "./registry.ts";
import { PULL_ADDRESS, PullRoutes } from "./routes.ts";
import { pullService } from "./service.ts";
import { PULLER, SNAPSHOT } from "./state.ts";

export function pullFeature(kernel: Kernel, limits: PullLimits, { streams }: { readonly streams: Streams }) {
  const { engine, keepers, world, audience, report } = kernel;
  const registry = new DispatcherRegistry({ engine, keepers, world, streams, limits, report });
  const { service, sweepSubscription, sweepSnapshot } = pullService(
    { engine, keepers, world, streams, limits },
    registry,
  );
  const connections = new PullConnections({ engine, world, audience, service, limits, report });
  const routes = new PullRoutes(connections, audience);
  return {
    title: "Pull",
    kinds: [kindOf(PULLER, sweepSubscription), kindOf(SNAPSHOT, sweepSnapshot)],
    routes: [
      route({
        name: "pull.connect",
        need: "read-or-write",
        methods: ["GET"],
        address: PULL_ADDRESS,
        handle: (call, request) => routes.pull(call, request),
        describe: describePull,
      }),
    ],
    metrics: pullMetrics(registry, connections),
    drain: () => registry.drain(),
    stop: () => registry.stop(),
    service,
    registry,
  } satisfies Feature & Record<string, unknown>;
}
