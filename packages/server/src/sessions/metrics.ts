/** The metrics of sessions and fan-out, without ids. `feature.ts` hands them to compose. */
import { counter, counters, gauge, type Metric } from "../core/metric.ts";
import type { Events } from "./events.ts";
import type { Fanout } from "./fanout.ts";
import type { LocalQueue } from "./queue.ts";

export function sessionMetrics(events: Events, fanout: Fanout, queue: LocalQueue): Metric[] {
  const { meter } = fanout;
  return [
    counters("sluice_session_events_total", "Events of sessions, by kind.", "event", () =>
      Object.fromEntries(events.counts),
    ),
    counters("sluice_fanout_copies_total", "Copies into sessions' streams, by outcome.", "outcome", () => ({
      copied: meter.copied,
      failed: meter.failed,
      timeout: meter.timeouts,
      lagging: meter.lagging,
      stale: meter.stale,
    })),
    counter("sluice_fanout_messages_total", "Messages copied into sessions' streams.", () => meter.messages),
    gauge("sluice_fanout_sources", "Streams with subscribers that this process remembers.", () => fanout.size),
    gauge("sluice_fanout_laggards", "Sessions that are behind the cursor and catching up.", () => fanout.laggards),
    gauge(
      "sluice_fanout_queue_messages",
      "Messages of the fan-out queue that are not being worked on yet.",
      () => queue.length,
    ),
  ];
}
