/**
 * Pull: subscriptions with leases on single messages, for the library, the WebSocket `/pull` and the gRPC door. Compose calls it;
 * `docs/pubsub.md` tells how it works.
 */
import { type Feature, type Kernel, kindOf } from "../feature.ts";
import type { Streams } from "../streams/service.ts";
import type { PullLimits } from "./defaults.ts";
import { pullMetrics } from "./metrics.ts";
import { DispatcherRegistry } from "./registry.ts";
import { pullService } from "./service.ts";
import { PULLER, SNAPSHOT } from "./state.ts";

export function pullFeature(kernel: Kernel, limits: PullLimits, { streams }: { readonly streams: Streams }) {
  const { engine, keepers, world, report } = kernel;
  const registry = new DispatcherRegistry({ engine, keepers, world, streams, limits, report });
  const { service, sweepSubscription, sweepSnapshot } = pullService(
    { engine, keepers, world, streams, limits },
    registry,
  );
  return {
    title: "Pull",
    kinds: [kindOf(PULLER, sweepSubscription), kindOf(SNAPSHOT, sweepSnapshot)],
    routes: [],
    metrics: pullMetrics(registry),
    drain: () => registry.drain(),
    stop: () => registry.stop(),
    service,
    registry,
  } satisfies Feature & Record<string, unknown>;
}
