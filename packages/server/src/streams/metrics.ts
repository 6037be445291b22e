/**
 * The metrics of streams: their names, their meaning, and where the numbers come from. `feature.ts` hands them to
 * compose.
 */
import { counter, counters, gauge, type Metric } from "../core/metric.ts";
import type { StreamMeter } from "./meter.ts";
import type { Census } from "./stream-count.ts";
import type { TailRoutes } from "./tail-routes.ts";

export function streamMetrics(meter: StreamMeter, tail: TailRoutes, census: Census): readonly Metric[] {
  return [
    counters("sluice_appends_total", "Append requests that were decided, by outcome.", "outcome", () => meter.appends),
    counter("sluice_messages_total", "Messages appended, those a stream was created with included.", () => {
      return meter.messages;
    }),
    counter("sluice_message_bytes_total", "Payload bytes of the messages appended.", () => meter.bytes),
    counters("sluice_reads_total", "Reads that were answered or opened, by kind.", "kind", () => meter.reads),
    counter("sluice_live_catch_ups_total", "Reads by which clients of live connections caught up.", () => {
      return meter.catchUps.requests;
    }),
    counter("sluice_live_catch_up_bytes_total", "Payload bytes that such reads got.", () => meter.catchUps.bytes),
    counter("sluice_streams_created_total", "Streams created by this server.", () => meter.created),
    counter("sluice_streams_deleted_total", "Streams deleted or expired by this server.", () => meter.deleted),
    {
      kind: "gauge",
      name: "sluice_streams",
      help: "Streams that exist, deleted ones that are kept for forks included; counted at most once a minute.",
      read(observe) {
        const count = census.look();
        if (count !== undefined) observe(count);
      },
    },
    {
      kind: "gauge",
      name: "sluice_live_readers",
      help: "Live reads that are open now, by kind.",
      read(observe) {
        observe(tail.sseReaders, { kind: "sse" });
        observe(tail.polls, { kind: "long-poll" });
      },
    },
    gauge("sluice_waiters", "Long-polls that wait for a message now.", () => tail.waiters),
    gauge("sluice_watched_streams", "Streams that SSE readers stand at the tail of.", () => tail.watchedStreams),
  ];
}
