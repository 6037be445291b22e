/**
 * How many streams there are, for a gauge. The engine is asked page by page, with a pause after each, when somebody looks and the
 * last count is old; in between, what this server creates and deletes is added. So looking costs nothing, and counting a
 * small share of the time however many there are.
 *
 * What must stay true: at most one count runs, none after `stop`, and a fault of the engine costs a count, nothing else.
 */
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { CENSUS_LIMITS, type CensusLimits } from "./limits.ts";
import type { StreamMeter } from "./meter.ts";
import { STREAM } from "./state.ts";

export class Census {
  private counted: number | undefined;
  /** Created minus deleted by this server when the last count began. What was created while it ran may be counted twice. */
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

  /** Undefined until the first count has ended. */
  look(): number | undefined {
    if (!this.isCounting && !this.isStopped && this.world.now() >= this.staleAt) void this.count();
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
    const startedAt = this.world.now();
    const balance = this.balanceNow();
    try {
      const found = await this.countAll();
      if (found !== undefined) {
        this.counted = found;
        this.balance = balance;
      }
    } catch {
      // The next look that finds the count old tries again; whatever is wrong with the engine shows elsewhere.
    }
    const now = this.world.now();
    this.staleAt = now + Math.max(this.limits.keepMs, this.limits.keepFactor * (now - startedAt));
    this.isCounting = false;
  }

  /** Undefined when it was stopped in between. */
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
