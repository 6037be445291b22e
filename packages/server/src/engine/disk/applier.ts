/**
 * Applies journal frames to the store. Recovery runs it at open, the apply worker while the engine runs, and a simulation in
 * line.
 *
 * Invariants: no other code writes entities into the store. One call is one transaction that also moves `appliedThrough`, so a
 * frame is in the store wholly and once. It first joins all commits of an entity within a call: one head row, one value per row,
 * whole chunks.
 */
import {
  type BlockVisitor,
  blockFixed,
  blockFlags,
  blockGeneration,
  blockLength,
  blockName,
  blockNumber,
  CREATED,
  DESTROYED,
  REMINDED,
  visitBlock,
} from "./commit-block.ts";
import { type ApplyLimits, DEFAULT_LIMITS } from "./defaults.ts";
import { EntityWork } from "./entity-work.ts";
import { EntityWriter } from "./entity-writer.ts";
import { collectGarbage } from "./garbage.ts";
import { type Meta, readMeta, writeMeta } from "./meta.ts";
import type { Store, Writing } from "./store.ts";

/** The commits of a frame. */
export interface Commits {
  readonly firstLsn: number;
  readonly count: number;
  readonly payload: Buffer;
}

export class Applier {
  private readonly writer: EntityWriter;
  /** Whether the last transaction left garbage for the next. */
  hasGarbage = false;

  constructor(
    private readonly store: Store,
    private readonly limits: ApplyLimits = DEFAULT_LIMITS,
    /** Called after each entity. */
    private readonly takeBreak: () => void = () => undefined,
  ) {
    this.writer = new EntityWriter(limits.busyStreams);
  }

  /** Applies consecutive frames and skips the frames that the store already has. */
  apply(frames: readonly Commits[]): number {
    let through = 0;
    this.store.transact((tx) => {
      const meta = readMeta(tx);
      const works = new Map<number, EntityWork>();
      for (const frame of frames) {
        if (frame.count > 0 && frame.firstLsn > meta.appliedThrough) join(works, frame, meta);
      }
      for (const work of works.values()) {
        this.writer.write(tx, work);
        this.takeBreak();
      }
      this.finish(tx, meta);
      through = meta.appliedThrough;
    });
    return through;
  }

  /** Only deletes garbage; true if some is left. */
  collect(): boolean {
    this.store.transact((tx) => {
      this.hasGarbage = collectGarbage(tx, this.limits.garbageKeys);
    });
    return this.hasGarbage;
  }

  private finish(tx: Writing, meta: Meta): void {
    this.hasGarbage = collectGarbage(tx, this.limits.garbageKeys);
    writeMeta(tx, meta);
  }
}

/** Reads the blocks of a frame into the work of their entities. */
function join(works: Map<number, EntityWork>, frame: Commits, meta: Meta): void {
  let at = 0;
  for (let i = 0; i < frame.count; i++) {
    const length = blockLength(frame.payload, at);
    const block = frame.payload.subarray(at, at + length);
    const number = blockNumber(block);
    let work = works.get(number);
    if (work === undefined) {
      work = new EntityWork(number);
      works.set(number, work);
    }
    joinBlock(work, block, frame.firstLsn + i);
    if (number > meta.lastNumber) meta.lastNumber = number;
    if (work.destroyed) meta.destroyedGeneration = Math.max(meta.destroyedGeneration, blockGeneration(block));
    at += length;
  }
  meta.appliedThrough = frame.firstLsn + frame.count - 1;
}

function joinBlock(work: EntityWork, block: Buffer, lsn: number): void {
  const flags = blockFlags(block);
  if (flags & CREATED) work.name = blockName(block);
  if (flags & REMINDED) work.reminded = true;
  if (flags & DESTROYED) work.destroyed = true;
  work.rev = lsn;
  work.fixed = blockFixed(block);
  visitBlock(block, work satisfies BlockVisitor);
}
