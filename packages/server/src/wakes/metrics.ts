/** The metrics of wake subscriptions. The service builds them; compose collects them. */
import { counters, gauge, type Metric } from "../core/metric.ts";
import type { Delivery } from "./webhook-delivery.ts";

export function wakeMetrics(delivery: Delivery, index: { readonly size: number }): readonly Metric[] {
  return [
    counters(
      "sluice_wake_attempts_total",
      "Attempts to deliver a wake: sent, answered as done, or failed.",
      "outcome",
      () => delivery.outcomes,
    ),
    gauge("sluice_wake_attempts_active", "Attempts that are under way.", () => delivery.active),
    gauge("sluice_wake_attempts_waiting", "Attempts that wait for their turn.", () => delivery.waiting),
    gauge("sluice_wake_subscriptions", "Wake subscriptions that this server serves.", () => index.size),
  ];
}
