/** What became of the check of the store since the start. `background-check.ts` counts, the engine's metrics read. */
import { counter, gauge, type Metric } from "../../core/metric.ts";

const RESULTS = ["running", "passed", "damaged", "failed"] as const;

export class CheckMeter {
  /** A store without an earlier life has nothing to check. */
  result: (typeof RESULTS)[number] = "passed";
  bytes = 0;
  rows = 0;
  /** What the whole check has to read. */
  totalBytes = 0;

  metrics(): readonly Metric[] {
    return [
      counter("sluice_store_checked_bytes_total", "Bytes of the store that the check since the start has read.", () => {
        return this.bytes;
      }),
      gauge("sluice_store_check_progress", "How much of the store was checked since the start, from 0 to 1.", () => {
        if (this.result === "passed") return 1;
        return this.totalBytes === 0 ? 0 : Math.min(1, this.bytes / this.totalBytes);
      }),
      {
        kind: "gauge",
        name: "sluice_store_check",
        help: "1 for what became of the check since the start: running, passed, damaged, failed.",
        read: (observe) => {
          for (const result of RESULTS) observe(result === this.result ? 1 : 0, { result });
        },
      },
    ];
  }
}
