/** The counters of the Redis engine. Its parts add to them; no decision reads them. */
import { counter, gauge, histogram, type Metric } from "../../core/metric.ts";
import { SECONDS, Tally } from "../../core/tally.ts";

export class RedisMeter {
  /** Operations under way. */
  open = 0;
  retries = 0;
  expired = 0;
  turns = 0;
  /** Connections opened to masters, and connections that were lost or given up. */
  connects = 0;
  losses = 0;
  readonly commitSeconds = new Tally(SECONDS);
  readonly barrierSeconds = new Tally(SECONDS);

  metrics(): readonly Metric[] {
    return [
      gauge("sluice_redis_operations", "Operations on Redis under way.", () => this.open),
      counter("sluice_redis_retries_total", "Repeated attempts of operations.", () => this.retries),
      counter(
        "sluice_redis_deadlines_total",
        "Operations that were refused because Redis took too long.",
        () => this.expired,
      ),
      counter("sluice_redis_turns_total", "Attempts that found another node's turn.", () => this.turns),
      counter("sluice_redis_connects_total", "Connections to masters that were opened.", () => this.connects),
      counter(
        "sluice_redis_disconnects_total",
        "Connections to masters that were lost or given up.",
        () => this.losses,
      ),
      histogram("sluice_redis_commit_seconds", "Time of a commit on Redis, attempts included.", this.commitSeconds),
      histogram(
        "sluice_redis_replica_wait_seconds",
        "Time until the replicas of a master had confirmed a barrier.",
        this.barrierSeconds,
      ),
    ];
  }
}
