/**
 * Looks for entities whose reminder has passed and hands each to the feature that owns its kind. A reminder is a hint: the
 * feature rereads the entity before it acts, and commits a new reminder or none. Started and stopped by compose.
 */
import type { Cancel, World } from "../core/world.ts";
import type { Engine, Entity } from "./contract.ts";

export interface SweepLimits {
  readonly everyMs: number;
  readonly batch: number;
  /** Batches of one shard per pass, so that one busy shard does not keep the others from their next. */
  readonly rounds: number;
}

export const SWEEP_LIMITS: SweepLimits = { everyMs: 500, batch: 100, rounds: 100 };

/** A kind of entity, and what happens to those whose reminder has passed. */
export interface SweptKind {
  readonly kind: string;
  /** How many are swept together at most. */
  readonly batch: number;
  sweep(entities: readonly Entity[]): Promise<unknown>;
}

interface Batch {
  readonly swept: SweptKind | undefined;
  readonly entities: Entity[];
}

export class Sweeper {
  private readonly kinds = new Map<string, SweptKind>();
  private cancel: Cancel | undefined;
  private round: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(
    private readonly engine: Engine,
    private readonly world: World,
    private readonly report: (e: Entity | undefined, fault: unknown) => void,
    private readonly limits: SweepLimits = SWEEP_LIMITS,
  ) {}

  handle(kind: SweptKind): void {
    this.kinds.set(kind.kind, kind);
  }

  start(): void {
    this.cancel = this.world.after(this.limits.everyMs, () => {
      this.round = this.sweepAll().finally(() => {
        if (!this.stopped) this.start();
      });
    });
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancel?.();
    await this.round;
  }

  /** One pass over every shard, all of them at once, so that a slow one holds up none of the others. */
  async sweepAll(): Promise<void> {
    await Promise.all(Array.from({ length: this.engine.shards }, (_, shard) => this.sweepShard(shard)));
  }

  /** Goes on while the shard keeps handing out full batches and they get done. */
  private async sweepShard(shard: number): Promise<void> {
    for (let round = 0; round < this.limits.rounds && !this.stopped; round++) {
      if ((await this.sweepBatch(shard)) < this.limits.batch) break;
    }
  }

  private async sweepBatch(shard: number): Promise<number> {
    let due: readonly Entity[];
    try {
      due = await this.engine.due(shard, this.limits.batch);
    } catch (fault) {
      this.report(undefined, fault);
      return 0;
    }
    let done = 0;
    for (const { swept, entities } of this.batches(due)) {
      try {
        await swept?.sweep(entities);
        done += entities.length;
      } catch (fault) {
        // It stays due, and the next round tries again; the others must not wait for it.
        this.report(entities[0], fault);
      }
    }
    return done;
  }

  /** In the order in which they are due, but for those that are handled together. */
  private batches(due: readonly Entity[]): readonly Batch[] {
    const batches: Batch[] = [];
    const open = new Map<string, Batch>();
    for (const e of due) {
      const swept = this.kinds.get(e.kind);
      const last = open.get(e.kind);
      if (last && last.entities.length < (swept?.batch ?? 1)) {
        last.entities.push(e);
        continue;
      }
      const batch: Batch = { swept, entities: [e] };
      open.set(e.kind, batch);
      batches.push(batch);
    }
    return batches;
  }
}
