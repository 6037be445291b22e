/**
 * The faults of the host during a run: kills, power cuts and clean restarts at arbitrary moments, with some time in between.
 * The simulation starts it with the clients and stops it before the audit.
 */
import type { Host } from "./host.ts";
import type { Random } from "./random.ts";
import type { SimWorld } from "./world.ts";

const HEAL_MS = 2_000;

type Blow = "kill" | "power-cut" | "restart";

export class Trouble {
  private over = false;
  private readonly done: Promise<void>;
  private readonly every: number;
  private readonly shares: Record<Blow, number>;

  constructor(
    private readonly world: SimWorld,
    private readonly host: Host,
    private readonly random: Random,
    private readonly maxBlows = Number.POSITIVE_INFINITY,
  ) {
    this.every = random.pick([0, 100, 500, 3_000]);
    this.shares = random.pick<Record<Blow, number>>([
      { kill: 1, "power-cut": 0, restart: 0 },
      { kill: 0, "power-cut": 1, restart: 0 },
      { kill: 1, "power-cut": 1, restart: 1 },
      { kill: 0, "power-cut": 0, restart: 1 },
    ]);
    const isIdle = this.every === 0 && this.maxBlows === Number.POSITIVE_INFINITY;
    this.done = isIdle ? Promise.resolve() : this.go();
  }

  /** Ends the faults, with the host running. */
  async stop(): Promise<void> {
    this.over = true;
    await this.done;
    if (!this.host.isHealthy) await this.host.shutDown();
    await this.startAgain();
  }

  private async go(): Promise<void> {
    let blows = this.every === 0 ? this.maxBlows : 0;
    while (!this.over) {
      const isSpent = blows >= this.maxBlows;
      await this.world.sleep(isSpent ? HEAL_MS : this.random.between(1, this.every));
      if (this.over) return;
      // Where the number of faults is bounded, this also restarts a storage that only a restart can repair.
      if (isSpent && this.host.isHealthy) continue;
      blows++;
      const blow = isSpent ? "restart" : this.random.weighted(this.shares);
      if (blow === "restart") await this.host.shutDown();
      else this.host.crash(blow);
      await this.world.sleep(this.random.between(0, this.random.pick([0, 10, 500])));
      await this.startUnderFire();
    }
  }

  private async startAgain(): Promise<void> {
    while (!this.host.isUp) {
      await this.host.start();
      if (!this.host.isUp) await this.world.sleep(10);
    }
  }

  /** Sometimes the process dies again while it opens its storage. */
  private async startUnderFire(): Promise<void> {
    while (!this.host.isUp) {
      const started = this.host.start();
      if (this.random.chance(0.2)) this.world.schedule("dies early", this.random.between(0, 20), () => this.dieEarly());
      await started;
      if (!this.host.isUp) await this.world.sleep(10);
    }
  }

  private dieEarly(): void {
    if (!this.host.isUp && !this.over) this.host.crash(this.random.chance(0.5) ? "kill" : "power-cut");
  }
}
