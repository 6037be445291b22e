/** The metrics of pull: what this node dispatches, and the answers of clients. `feature.ts` hands them to compose. */
import { gauge, type Metric } from "../core/metric.ts";
import type { PullConnections } from "./connection.ts";
import type { DispatcherRegistry } from "./registry.ts";

export function pullMetrics(registry: DispatcherRegistry, connections: PullConnections): Metric[] {
  const sum = (of: (one: DispatcherRegistry["all"][number]) => number) => () =>
    registry.all.reduce((total, one) => total + of(one), 0);
  return [
    gauge("sluice_pull_dispatchers", "Subscriptions of pull that this node serves.", () => registry.all.length),
    gauge(
      "sluice_pull_streams",
      "Streams of those subscriptions.",
      sum(({ holders }) => holders.size),
    ),
    gauge(
      "sluice_pull_outstanding",
      "Messages that are delivered and not yet answered.",
      sum(({ outstanding }) => outstanding),
    ),
    gauge("sluice_pull_connections", "Open pull connections.", () => connections.size),
  ];
}
