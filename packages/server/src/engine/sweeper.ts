/**
 * Finds entities whose reminder has passed and hands each to the feature that owns its kind. Compose starts and stops it.
 *
 * Invariants: a reminder is a hint. The feature rereads the entity before it acts, and commits a new reminder or none.
 */
import type { Cancel, World } from "../core/world.ts";
import type { Engine, Entity } from "./contract.ts";

export interface SweepLimits {
  readonly everyMs: number;
  readonly batch: number;
  /** Batches of one shard per pass, so that one busy shard does not delay the next pass of the others. */
  readonly rounds: number;
}

export const SWEEP_LIMITS: SweepLimits = { everyMs: 500, batch: 100, rounds: 100 };

/** A kind of entity, and the handler for entities whose reminder has passed. */
export interface SweptKind {
  readonly kind: string;
  /** The most entities in one call of the handler. */
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

  /** One pass over all shards concurrently, so that a slow shard delays no other. */
  async sweepAll(): Promise<void> {
    await Promise.all(Array.from({ length: this.engine.shards }, (_, shard) => this.sweepShard(shard)));
  }

  /** Continues while the shard returns full batches and the feature handles them. */
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
        // The batch stays due and the next round retries it. The other batches must not wait for it.
        this.report(entities[0], fault);
      }
    }
    return done;
  }

  /** In due order, except for entities that are handled together. */
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
