/**
 * Decides when the applier works. Much work starts at once, little work after a quiet moment, garbage when nothing else waits.
 * After a full disk or a shortage of descriptors it retries later. The engine reports each durable extent.
 *
 * Little work that keeps coming waits for more, because each transaction rewrites the last page of every stream it touches.
 * Measured with 4,000 publishes/s to 1,000 channels: 300 MB/s to disk when little work waited 50 ms, 17 MB/s when it waited a
 * second. A disk that is busy with those writes delays the journal. For the same reason much work is more while the streams that
 * wait can fill their pages with it: with appends to 100 streams, work of 4 MiB at a time took the processors a tenth less per
 * append than work of 1 MiB. Copies to 10,000 inboxes fill no pages, because each of them meets another stream. Gathering such
 * scattered work saves nothing, and the flush of a large transaction delays the journal: with 0.4 instead of 1.5 MB at a time the
 * applier took a fifth less time, and the longest flushes of publishes meanwhile fell from 7 to 5 ms.
 *
 * Invariants: extents go to the applier in order, one call at a time, and again only if they are unreported.
 */
import type { Cancel, World } from "../../core/world.ts";
import type { EngineError } from "../contract.ts";
import type { Applied, ApplyRunner } from "./apply-runner.ts";
import { CHUNK_BYTES, type Limits } from "./defaults.ts";
import type { Extent } from "./journal.ts";
import { engineErrorOf, mayPass } from "./system-fault.ts";

export interface ApplyEvents {
  /** Entities that the store lacks commits of. */
  waiting(): number;
  /** The share of the latest commits whose entity had none among the thousands before. */
  farShare(): number;
  applied(applied: Applied): void;
  /** The store takes nothing for now, because it lacks room or descriptors; undefined when it takes work again. */
  stuck(error: EngineError | undefined): void;
  failed(error: EngineError): void;
}

/** Pages of each stream that one run should fill, and how many times `applyBytes` may be gathered for that. */
const FILLED_PAGES = 2;
const MOST_GATHERED = 4;
/** Work is scattered above this share of far commits. Of scattered work, this part of `applyBytes` is much. */
const SCATTERED_SHARE = 0.8;
const SCATTERED_PART = 1 / 4;

export class ApplyScheduler {
  private extents: Extent[] = [];
  private bytes = 0;
  private running = false;
  private failed = false;
  private closing = false;
  private timer: Cancel | undefined;
  /** Whether more work has come since the last look, and for how long the scheduler has waited. */
  private hasGrown = false;
  private waitedMs = 0;
  private drained: (() => void)[] = [];

  constructor(
    private readonly world: World,
    private readonly limits: Limits,
    private readonly runner: ApplyRunner,
    private readonly events: ApplyEvents,
    private hasGarbage: boolean,
  ) {
    if (hasGarbage) this.later(limits.applyAfterMs);
  }

  durable(extent: Extent): void {
    const last = this.extents.at(-1);
    if (last !== undefined && last.segment === extent.segment && last.to === extent.from) {
      this.extents[this.extents.length - 1] = { ...last, to: extent.to };
    } else this.extents.push(extent);
    this.bytes += extent.to - extent.from;
    if (this.running) return;
    this.hasGrown = true;
    if (this.isMuch()) this.run();
    else this.later(this.limits.applyAfterMs);
  }

  private isMuch(): boolean {
    const { applyBytes, lagBytes } = this.limits;
    if (this.bytes >= SCATTERED_PART * applyBytes && this.events.farShare() > SCATTERED_SHARE) return true;
    if (this.bytes < applyBytes) return false;
    const filling = FILLED_PAGES * CHUNK_BYTES * this.events.waiting();
    // Writers wait at `lagBytes`, and the applier starts well before.
    return filling > MOST_GATHERED * applyBytes || this.bytes >= Math.min(filling, lagBytes / 4);
  }

  private later(ms: number): void {
    if (this.failed) return;
    this.timer ??= this.world.after(ms, () => {
      this.timer = undefined;
      this.waitedMs += ms;
      // Counted in looks and not by the clock, because the clock may be set back.
      if (!this.hasGrown || this.waitedMs >= this.limits.applyWithinMs) this.run();
      else {
        this.hasGrown = false;
        this.later(ms);
      }
    });
  }

  private run(): void {
    if (this.running || this.failed) return;
    if (this.extents.length === 0 && !this.hasGarbage) return;
    this.running = true;
    this.hasGrown = false;
    this.waitedMs = 0;
    this.timer?.();
    this.timer = undefined;
    void this.apply();
  }

  private async apply(): Promise<void> {
    try {
      const garbage = await this.runner.apply(this.extents.slice(), (applied) => this.take(applied));
      this.hasGarbage = garbage;
      this.running = false;
      this.events.stuck(undefined);
      this.next();
    } catch (fault) {
      this.running = false;
      this.fail(fault);
    }
    if (this.extents.length === 0 || this.failed) for (const done of this.drained.splice(0)) done();
  }

  /** Releases the extents that the store now has. */
  private take(applied: Applied): void {
    this.bytes -= applied.bytes;
    const first = this.extents[0]!;
    if (applied.to >= first.to) this.extents.shift();
    else this.extents[0] = { ...first, from: applied.to };
    this.events.applied(applied);
  }

  private next(): void {
    if (this.extents.length > 0 && (this.closing || this.isMuch())) this.run();
    else if (this.extents.length > 0 || (this.hasGarbage && !this.closing)) this.later(this.limits.applyAfterMs);
  }

  private fail(fault: unknown): void {
    const error = engineErrorOf(fault, "Applying the journal", "the store");
    // On close a full disk is no reason to wait, because the journal has everything.
    this.failed = !mayPass(error) || this.closing;
    if (mayPass(error)) {
      this.events.stuck(error);
      this.later(this.limits.retryFullMs);
    } else this.events.failed(error);
  }

  /** Applies nothing more in this process; the current transaction completes. */
  stop(): void {
    this.failed = true;
    this.timer?.();
  }

  /** Applies the rest, so that the next start has nothing to replay, and stops. */
  async close(): Promise<void> {
    this.closing = true;
    while (!this.failed && (this.running || this.extents.length > 0)) {
      const drained = new Promise<void>((done) => this.drained.push(done));
      this.run();
      await drained;
    }
    this.failed = true;
    this.timer?.();
    await this.runner.close();
  }
}
