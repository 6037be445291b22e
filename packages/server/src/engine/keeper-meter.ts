/** The counters of all keepers of one server. A keeper adds to them at every commit; no decision reads them. */
import { counter, gauge, histogram, type Metric } from "../core/metric.ts";
import { SIZES, Tally } from "../core/tally.ts";

export class KeeperMeter {
  commits = 0;
  conflicts = 0;
  /** Batches whose inputs were refused because a load or a commit failed. */
  failures = 0;
  readonly batch = new Tally(SIZES);

  metrics(keepers: { readonly size: number }): readonly Metric[] {
    return [
      counter("sluice_commits_total", "Commits of one entity that became durable.", () => this.commits),
      counter(
        "sluice_conflicts_total",
        "Commits that conflicted with another writer and ran again.",
        () => this.conflicts,
      ),
      counter(
        "sluice_commit_failures_total",
        "Commits that failed; their requests were answered with an error.",
        () => this.failures,
      ),
      histogram("sluice_commit_batch_size", "Requests that shared one commit of an entity.", this.batch),
      gauge("sluice_keepers", "Entities whose state is in memory for writing.", () => keepers.size),
    ];
  }
}
