/**
 * The port that applies the journal: a worker thread in a server (apply-thread.ts), the caller's thread in a simulation (here).
 * The scheduler passes it extents.
 *
 * Invariants: one call at a time.
 */
import type { Applier } from "./applier.ts";
import type { ExtentReader } from "./extent-reader.ts";
import type { Extent } from "./journal.ts";

/** The store has everything up to `lsn`, which ends at `to` in `segment`. */
export interface Applied {
  readonly lsn: number;
  readonly segment: number;
  readonly to: number;
  readonly bytes: number;
}

export interface ApplyRunner {
  /** Resolves when extents can be applied; rejects if they never can. */
  readonly started: Promise<void>;
  /**
   * Applies the extents in order and reports after each transaction. Without extents it deletes a slice of garbage. Resolves to
   * whether garbage is left. Rejects with an EngineError; the caller may then pass unreported extents again.
   */
  apply(extents: readonly Extent[], report: (applied: Applied) => void): Promise<boolean>;
  /** The background check has passed, so no access to the store needs a guard any more. */
  passed?(): void;
  close(): Promise<void>;
}

export class InlineRunner implements ApplyRunner {
  readonly started = Promise.resolve();

  constructor(
    private readonly applier: Applier,
    private readonly reader: ExtentReader,
  ) {}

  async apply(extents: readonly Extent[], report: (applied: Applied) => void): Promise<boolean> {
    if (extents.length === 0) return this.applier.collect();
    for (const extent of extents) {
      let { from } = extent;
      while (from < extent.to) {
        const slice = await this.reader.read({ ...extent, from });
        const lsn = this.applier.apply(slice.frames);
        report({ lsn, segment: slice.segment, to: slice.to, bytes: slice.bytes });
        from = slice.to;
      }
    }
    return this.applier.hasGarbage;
  }

  close(): Promise<void> {
    return this.reader.close();
  }
}
