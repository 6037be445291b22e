/**
 * The number of streams, for a gauge. A scrape starts a count when the last one is old. The count lists the engine page
 * by page and pauses between pages; streams that this server creates and deletes meanwhile are added. So a scrape costs
 * nothing, and counting takes a small share of the time at any size.
 *
 * Invariants: at most one count runs, and none after `stop`. An engine fault costs one count and nothing else.
 */
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { CENSUS_LIMITS, type CensusLimits } from "./defaults.ts";
import type { StreamMeter } from "./meter.ts";
import { STREAM } from "./state.ts";

export class Census {
  private counted: number | undefined;
  /**
   * Created minus deleted by this server when the last count began. Streams created during that count may be counted
   * twice.
   */
  private balance = 0;
  private isCounting = false;
  private isStopped = false;
  private staleAt = 0;

  constructor(
    private readonly engine: Engine,
    private readonly meter: StreamMeter,
    private readonly world: World,
    private readonly limits: CensusLimits = CENSUS_LIMITS,
  ) {}

  /** Undefined until the first count has completed. */
  look(): number | undefined {
    if (!this.isCounting && !this.isStopped && this.world.monotonicMs() >= this.staleAt) void this.count();
    if (this.counted === undefined) return undefined;
    return Math.max(0, this.counted + this.balanceNow() - this.balance);
  }

  stop(): void {
    this.isStopped = true;
  }

  private balanceNow(): number {
    return this.meter.created - this.meter.deleted;
  }

  private async count(): Promise<void> {
    this.isCounting = true;
    const startedAt = this.world.monotonicMs();
    const balance = this.balanceNow();
    try {
      const found = await this.countAll();
      if (found !== undefined) {
        this.counted = found;
        this.balance = balance;
      }
    } catch {
      // The next scrape that finds the count old retries. The engine reports its faults itself.
    }
    const now = this.world.monotonicMs();
    this.staleAt = now + Math.max(this.limits.keepMs, this.limits.keepFactor * (now - startedAt));
    this.isCounting = false;
  }

  /** Undefined if stopped meanwhile. */
  private async countAll(): Promise<number | undefined> {
    let found = 0;
    for (const project of await this.engine.projects(STREAM)) {
      for (let after: string | undefined = ""; after !== undefined; ) {
        if (this.isStopped) return undefined;
        const page = await this.engine.list(project, STREAM, "", after, this.limits.page);
        found += page.ids.length;
        after = page.next;
        if (after !== undefined) await new Promise<void>((resolve) => this.world.after(this.limits.pauseMs, resolve));
      }
    }
    return this.isStopped ? undefined : found;
  }
}
