/**
 * A clock that stands still while a busy machine keeps this process from running. Tests of deadlines measure with it, so that
 * only time in which the server could have answered counts. The failover suites use it.
 *
 * Invariants: time in which this process computes counts, so a server that blocks its own event loop is late.
 */

const TICK_MS = 20;
/** A tick that comes later than this was held up, unless the process has computed meanwhile. */
const MAX_TICK_MS = 100;

export class AwakeClock {
  private awakeMs = 0;
  private lastMs = performance.now();
  private lastCpu = process.cpuUsage();
  private readonly timer = setInterval(() => this.now(), TICK_MS);

  now(): number {
    const ms = performance.now();
    const { user, system } = process.cpuUsage(this.lastCpu);
    this.awakeMs += Math.min(ms - this.lastMs, Math.max(MAX_TICK_MS, (user + system) / 1_000));
    this.lastMs = ms;
    this.lastCpu = process.cpuUsage();
    return this.awakeMs;
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
