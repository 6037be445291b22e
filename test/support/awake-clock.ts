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
  private readonly timer = setInterval(() => this.tick(), TICK_MS);

  now(): number {
    // Between two ticks the processor time need not be asked for, which costs as much as a request.
    if (performance.now() - this.lastMs > MAX_TICK_MS) this.tick();
    return this.awakeMs + performance.now() - this.lastMs;
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private tick(): void {
    const ms = performance.now();
    const cpu = process.cpuUsage();
    const computedMs = (cpu.user + cpu.system - this.lastCpu.user - this.lastCpu.system) / 1_000;
    this.awakeMs += Math.min(ms - this.lastMs, Math.max(MAX_TICK_MS, computedMs));
    this.lastMs = ms;
    this.lastCpu = cpu;
  }
}
