/** The metrics of groups: what this node leads, and the members that it serves. `feature.ts` hands them to compose. */
import { gauge, type Metric } from "../core/metric.ts";
import type { GroupAgent } from "./agent.ts";
import type { ConsumeConnections } from "./connection.ts";
import type { LeaderRegistry } from "./leader-registry.ts";
import type { Survey } from "./survey.ts";

export function groupMetrics(
  registry: LeaderRegistry,
  agent: GroupAgent,
  connections: ConsumeConnections,
  survey: Survey,
): Metric[] {
  return [
    gauge("sluice_group_leaders", "Groups that this node leads.", () => registry.leaders),
    gauge("sluice_group_members", "Members of the groups that this node leads.", () => registry.count("members")),
    gauge("sluice_group_streams", "Streams of the groups that this node leads.", () => registry.count("streams")),
    gauge("sluice_group_borrowers", "Subscriptions to groups of this node's connections.", () => agent.size),
    gauge("sluice_group_connections", "Open consume connections.", () => connections.size),
    gauge(
      "sluice_group_lag_messages",
      "Messages that the groups of this node's leaders have not acknowledged.",
      () => survey.backlogs.lag,
    ),
    gauge(
      "sluice_group_greatest_lag_messages",
      "The same, of the group that has the most of them.",
      () => survey.backlogs.greatestLag,
    ),
    gauge(
      "sluice_group_pending_messages",
      "Messages that are delivered to members and not acknowledged.",
      () => survey.backlogs.pending,
    ),
    gauge(
      "sluice_group_oldest_unacked_seconds",
      "The age of the oldest message that a group has not acknowledged.",
      () => survey.backlogs.oldestSeconds,
    ),
  ];
}
