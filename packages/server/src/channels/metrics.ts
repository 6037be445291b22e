/**
 * The metrics of channels: the counters of the service, and the readers of the routes. `feature.ts` hands them to
 * compose.
 */
import { counter, counters, gauge, type Metric } from "../core/metric.ts";
import type { ChannelRoutes } from "./routes.ts";
import type { Channels } from "./service.ts";

export function channelMetrics({ counters: counted }: Channels, routes: ChannelRoutes): Metric[] {
  return [
    counters("sluice_channel_publishes_total", "Publishes to channels, by outcome.", "outcome", () => ({
      published: counted.publishes,
      refused: counted.refused,
      limited: counted.limited,
      "limiter-failed": counted.limiterFailed,
      "too-large": counted.tooLarge,
    })),
    counter("sluice_channel_messages_total", "Messages appended to channels.", () => counted.messages),
    counter("sluice_channel_repeats_total", "Messages that repeated a stored one.", () => counted.repeats),
    counter("sluice_channel_gaps_total", "Messages before which the publisher skipped sequences.", () => counted.gaps),
    counter("sluice_channel_stops_total", "Requests to stop a publisher.", () => counted.stops),
    counters("sluice_channel_removals_total", "Channels that the sweep removed, by reason.", "why", () => ({
      ended: counted.ended,
      abandoned: counted.abandoned,
      absent: counted.ghosts,
    })),
    gauge("sluice_channel_readers", "Connections that follow a channel.", () => routes.readers),
    gauge("sluice_channels_followed", "Channels with at least one reader.", () => routes.watched),
  ];
}
