/** The metrics of Live, without ids. `feature.ts` hands them to compose. */
import { counter, counters, gauge, histogram, type Metric } from "../core/metric.ts";
import type { Hub } from "./hub.ts";
import type { LiveMeter } from "./meter.ts";
import type { Presence } from "./presence.ts";
import type { Rolls } from "./rolls.ts";

export function liveMetrics(meter: LiveMeter, hub: Hub, rolls: Rolls, presence: Presence): Metric[] {
  return [
    gauge("sluice_live_connections", "Live connections of sessions that are open.", () => hub.size),
    gauge("sluice_live_followed_subscriptions", "Subscriptions that open live connections follow.", () => hub.followed),
    counter("sluice_live_opened_total", "Live connections that were opened, reconnects included.", () => meter.opened),
    counter(
      "sluice_live_reconnects_total",
      "Live connections that were opened by sessions that had one before.",
      () => meter.reconnects,
    ),
    histogram(
      "sluice_live_push_seconds",
      "From the publish of a message to its push to live connections.",
      meter.pushSeconds,
    ),
    counters(
      "sluice_live_byes_total",
      "Live connections that the server ended, by the code of bye.",
      "code",
      () => meter.byes,
    ),
    counter(
      "sluice_live_notified_total",
      "Messages that were too large to push and were announced.",
      () => hub.notified,
    ),
    counter(
      "sluice_live_parked_total",
      "Subscriptions that were parked because a hub had too many.",
      () => meter.parked,
    ),
    counters("sluice_live_heartbeats_total", "Heartbeats of sessions, by outcome.", "outcome", () => meter.heartbeats),
    counter("sluice_live_pointers_moved_total", "Pointers that heartbeats moved.", () => meter.pointersMoved),
    counters(
      "sluice_live_removed_subscriptions_total",
      "Subscriptions to streams that ended, by the way they were removed; and rows that a reconciliation removed.",
      "path",
      () => meter.removals,
    ),
    gauge("sluice_live_removal_queue", "Ended streams whose subscriptions wait to be removed.", () => rolls.queued),
    gauge("sluice_live_removal_lag_seconds", "How long the first of them has waited.", () => rolls.lagSeconds),
    gauge(
      "sluice_live_presence_streams",
      "Streams on which connections of this node want presence.",
      () => presence.size,
    ),
    histogram(
      "sluice_live_removal_seconds",
      "From the end of a stream to the removal of its last subscription.",
      meter.removalSeconds,
    ),
  ];
}
