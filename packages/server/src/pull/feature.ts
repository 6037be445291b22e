/**
 * Pull: subscriptions with leases on single messages, for the library, the WebSocket `/pull` and the gRPC door. Compose calls it;
 * `docs/pubsub.md` tells how it works.
 */
import { Refusal } from "../core/refusal.ts";
import { type AddressName, READING, route } from "../core/route.ts";
import { type Feature, type Kernel, kindOf } from "../feature.ts";
import type { Streams } from "../streams/service.ts";
import { PullCarrier } from "./carrier.ts";
import { PullConnections } from "./connection.ts";
import type { PullLimits } from "./defaults.ts";
import { describePull as describe } from "./describe.ts";
import { pullMetrics } from "./metrics.ts";
import { DispatcherRegistry } from "./registry.ts";
import { RemoteHolders } from "./remote-holders.ts";
import { RemoteSubscriptions } from "./remote-subscriptions.ts";
import { PULL_ADDRESS, PullRoutes, SUBSCRIPTION_ADDRESS, TOPIC_ADDRESS } from "./routes.ts";
import { pullService } from "./service.ts";
import { PULLER, SNAPSHOT } from "./state.ts";

const subscription: AddressName = {
  says: "The name of a subscription, percent-encoded.",
  read(encoded, names) {
    try {
      names.subscription = decodeURIComponent(encoded);
    } catch {
      throw new Refusal("bad-request", "the name of the subscription is not percent-encoded UTF-8");
    }
  },
};

export function pullFeature(kernel: Kernel, limits: PullLimits, { streams }: { readonly streams: Streams }) {
  const { engine, keepers, world, audience, report } = kernel;
  const registry = new DispatcherRegistry({ engine, keepers, world, streams, limits, report });
  const carrier = new PullCarrier(engine);
  const remote = new RemoteSubscriptions({ world, carrier, streams, limits });
  const holders = new RemoteHolders({ world, carrier, registry, limits, report });
  const parts = { engine, keepers, world, streams, limits };
  const { service, sweepSubscription, sweepSnapshot } = pullService(parts, registry, remote);
  const connections = new PullConnections({ engine, world, audience, service, limits, report });
  const routes = new PullRoutes(connections, audience, service, limits);
  return {
    title: "Pull",
    names: { subscription },
    kinds: [kindOf(PULLER, sweepSubscription), kindOf(SNAPSHOT, sweepSnapshot)],
    routes: [
      route({
        name: "pull.connect",
        need: "read-or-write",
        methods: ["GET"],
        address: PULL_ADDRESS,
        handle: (call, request) => routes.pull(call, request),
        describe: describe.connect,
      }),
      route({
        name: "pull.info",
        need: "read-or-write",
        methods: READING,
        address: SUBSCRIPTION_ADDRESS,
        handle: (call) => routes.info(call),
        describe: describe.info,
      }),
      route({
        name: "pull.publish",
        need: "write",
        methods: ["POST"],
        address: TOPIC_ADDRESS,
        handle: (call, request) => routes.publish(call, request),
        describe: describe.publish,
      }),
    ],
    metrics: pullMetrics(registry, connections),
    start: () => {
      carrier.start({
        asked: (envelope) => void holders.asked(envelope),
        replied: (envelope) => remote.replied(envelope),
        told: (envelope) => remote.told(envelope),
      });
    },
    drain: () => registry.drain(),
    stop: async () => {
      remote.stop();
      await registry.stop();
      holders.stop();
      carrier.stop();
    },
    service,
    registry,
  } satisfies Feature & Record<string, unknown>;
}
