/** The counters of the journal: every flushed frame adds to them. The engine's metrics read them; no decision does. */
import { counter, gauge, histogram, type Metric } from "../../core/metric.ts";
import { SECONDS, SIZES, Tally } from "../../core/tally.ts";

export class JournalMeter {
  bytes = 0;
  readonly batch = new Tally(SIZES);
  readonly syncSeconds = new Tally(SECONDS);

  metrics(journal: { readonly lagBytes: number; readonly waitingBytes: number }): readonly Metric[] {
    return [
      histogram("sluice_journal_batch_size", "Commits that one flush of the journal made durable.", this.batch),
      histogram(
        "sluice_journal_fsync_seconds",
        "How long writes to the journal took, with their flush.",
        this.syncSeconds,
      ),
      counter("sluice_journal_bytes_total", "Bytes written to the journal, padding included.", () => this.bytes),
      gauge("sluice_journal_lag_bytes", "Bytes in the journal that the store behind it does not have yet.", () => {
        return journal.lagBytes;
      }),
      gauge("sluice_journal_waiting_bytes", "Bytes of commits that wait to be written to the journal.", () => {
        return journal.waitingBytes;
      }),
    ];
  }
}
