/**
 * The writer of the journal: takes commits, writes all waiting ones as one frame, flushes once, and reports them durable. The
 * engine feeds it.
 *
 * Invariants: no other code writes segments. Frame n+1 is written only after the flush of frame n returned. A commit is reported
 * durable, or refused with certainty (no reader can ever decode its frame), or the journal stops for good. A full disk or a
 * shortage of descriptors refuses and never stops it. A failed flush is never retried, because the kernel may have dropped the
 * pages and would report the next flush as a success.
 */
import type { World } from "../../core/world.ts";
import { EngineError } from "../contract.ts";
import type { Limits } from "./defaults.ts";
import type { File } from "./files.ts";
import { chainSeed, FRAME_HEADER_BYTES, finishFrame, frameBytes, SEGMENT_HEADER_BYTES } from "./frame.ts";
import { JournalMeter } from "./journal-meter.ts";
import type { Segment, Segments } from "./segments.ts";
import { engineErrorOf, failureOf, isShortage, mayPass } from "./system-fault.ts";

export interface QueuedCommit {
  lsn: number;
  readonly block: Buffer;
  refuse(error: EngineError): void;
}

/** The place of frames that the store does not have yet. */
export interface Extent {
  readonly segment: number;
  readonly from: number;
  readonly to: number;
}

export interface JournalEvents<C extends QueuedCommit> {
  durable(commits: readonly C[], extent: Extent): void;
}

const NO_HEADER = Buffer.alloc(FRAME_HEADER_BYTES);
const WRITING = "Writing the journal";
/** How often the journal tries to erase a refused frame while the machine lacks memory. */
const ERASE_ATTEMPTS = 20;

export class Journal<C extends QueuedCommit> {
  readonly meter = new JournalMeter();
  private queue: C[] = [];
  private queuedBytes = 0;
  private scheduled = false;
  private writing = false;
  private segment: Segment | undefined;
  private position = 0;
  private previous = 0;
  private sealedLsn: number;
  private sealing: (() => void) | undefined;
  private lastWriteMs = 0;
  private frame = Buffer.allocUnsafeSlow(256 * 1024);
  private idle: (() => void)[] = [];
  private failure: EngineError | undefined;
  /** The reason for the last refusal, until a write succeeds. */
  private refusal: EngineError | undefined;
  private refusalEndsMs = 0;
  /** Why the store accepts nothing for now. */
  private storeRefusal: EngineError | undefined;

  constructor(
    private readonly world: World,
    private readonly limits: Limits,
    private readonly segments: Segments,
    private nextLsn: number,
    private readonly events: JournalEvents<C>,
    /** Bytes of earlier processes that the store lacks. They count as lag, so that crashes in a row cannot add it up. */
    private unappliedBytes = 0,
  ) {
    this.sealedLsn = nextLsn;
  }

  /** Opens the first segment of this process, so that a full or failing disk shows at once. */
  async start(): Promise<void> {
    this.enter(await this.segments.next(0, true));
  }

  append(commit: C): void {
    const refusal = this.failure ?? this.overloaded();
    if (refusal !== undefined) {
      commit.refuse(refusal);
      return;
    }
    this.queue.push(commit);
    this.queuedBytes += commit.block.length;
    this.kick();
  }

  private overloaded(): EngineError | undefined {
    if (this.queuedBytes < this.limits.queueBytes) return undefined;
    return this.health() ?? new EngineError("overloaded", "Too many commits wait for the journal; retry later.");
  }

  health(): EngineError | undefined {
    // The refusal ends after `fullMs`, because a client that is told of a full disk sends no write that could show free room.
    const refusal = this.world.monotonicMs() < this.refusalEndsMs ? this.refusal : undefined;
    return this.failure ?? refusal ?? this.storeRefusal;
  }

  /** The store has applied this many more bytes of the journal. */
  applied(bytes: number): void {
    this.unappliedBytes -= bytes;
    this.kick();
  }

  /** The store takes nothing for now, or takes work again. */
  storeStuck(error: EngineError | undefined): void {
    this.storeRefusal = error;
    this.kick();
  }

  get lagBytes(): number {
    return this.unappliedBytes;
  }

  get waitingBytes(): number {
    return this.queuedBytes;
  }

  private kick(): void {
    if (this.scheduled || this.writing || this.queue.length === 0) return;
    this.scheduled = true;
    // Commits of this very turn join the batch; waiting for the next turn would add its duration.
    queueMicrotask(() => {
      this.scheduled = false;
      void this.writeNext();
    });
  }

  private async writeNext(): Promise<void> {
    if (this.writing || this.failure !== undefined || this.queue.length === 0) return;
    if (this.unappliedBytes > this.limits.lagBytes) {
      // The applier's next report starts the batch, unless the store takes nothing for now.
      if (this.storeRefusal !== undefined) this.refuseAll(this.queue.splice(0), this.storeRefusal);
      return;
    }
    this.writing = true;
    await this.writeBatch(this.takeBatch());
    this.rest();
  }

  private takeBatch(): C[] {
    let bytes = 0;
    let count = 0;
    for (const { block } of this.queue) {
      if (count > 0 && bytes + block.length > this.limits.batchBytes) break;
      bytes += block.length;
      count++;
    }
    const batch = count === this.queue.length ? this.queue : this.queue.slice(0, count);
    this.queue = count === this.queue.length ? [] : this.queue.slice(count);
    this.queuedBytes -= bytes;
    return batch;
  }

  private async writeBatch(batch: readonly C[]): Promise<void> {
    const payload = this.gather(batch);
    try {
      const extent = await this.writeFrame(payload, batch.length);
      let lsn = this.nextLsn;
      for (const commit of batch) commit.lsn = lsn++;
      this.nextLsn = lsn;
      this.unappliedBytes += extent.to - extent.from;
      this.refusal = undefined;
      this.events.durable(batch, extent);
      this.sealLater();
    } catch (fault) {
      this.refuseAll(batch, this.judge(fault));
    }
  }

  /** Copies the blocks one behind the other into the frame. */
  private gather(batch: readonly C[]): number {
    let payload = 0;
    for (const { block } of batch) payload += block.length;
    const needed = frameBytes(payload);
    if (needed > this.frame.length || this.frame.length > 4 * Math.max(needed, this.limits.batchBytes)) {
      this.frame = Buffer.allocUnsafeSlow(Math.max(needed, 256 * 1024));
    }
    let at = FRAME_HEADER_BYTES;
    for (const { block } of batch) {
      this.frame.set(block, at);
      at += block.length;
    }
    return payload;
  }

  /** Writes and flushes one frame; the position moves only if both succeed. */
  private async writeFrame(payload: number, count: number): Promise<Extent> {
    const bytes = frameBytes(payload);
    if (this.position + bytes > this.segment!.size) await this.turnPage(bytes);
    const { file, header } = this.segment!;
    const from = this.position;
    const frame = { firstLsn: this.nextLsn, count, previous: this.previous };
    const checksum = finishFrame(this.frame, payload, frame, header.salt);
    const startedAt = this.world.monotonicMs();
    try {
      await file.write(this.frame.subarray(0, bytes), from);
    } catch (fault) {
      if (mayPass(fault)) await this.erase(file, from);
      throw fault;
    }
    const now = this.world.monotonicMs();
    this.meter.syncSeconds.add((now - startedAt) / 1_000);
    this.meter.bytes += bytes;
    if (count > 0) this.meter.batch.add(count);
    this.position = from + bytes;
    this.previous = checksum;
    this.lastWriteMs = now;
    if (this.position * 2 > this.segment!.size) this.segments.prepareAhead();
    return { segment: header.number, from, to: this.position };
  }

  /**
   * Erases the header of a frame that will be refused, so that no reader takes it for a frame. If that fails, the journal stops.
   */
  private async erase(file: File, at: number): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await file.write(NO_HEADER, at);
      } catch (fault) {
        if (!isShortage(fault) || attempt === ERASE_ATTEMPTS) throw this.stop(fault);
        await new Promise<void>((resolve) => void this.world.after(this.limits.retryFullMs, resolve));
      }
    }
  }

  private async turnPage(frame: number): Promise<void> {
    const next = await this.segments.next(frame);
    const old = this.segment;
    this.enter(next);
    // Everything in the old segment is flushed, so a failed close loses nothing.
    await old?.file.close().catch(() => undefined);
  }

  private enter(segment: Segment): void {
    this.segment = segment;
    this.position = SEGMENT_HEADER_BYTES;
    if (segment.header.chainStart) this.previous = chainSeed(segment.header);
  }

  /** A full disk may have room later, and a shortage passes; any other fault stops writes until a restart. */
  private judge(fault: unknown): EngineError {
    if (this.failure !== undefined) return this.failure;
    if (!mayPass(fault)) return this.stop(fault);
    this.refusalEndsMs = this.world.monotonicMs() + this.limits.fullMs;
    this.refusal = engineErrorOf(fault, WRITING, this.segments.dir);
    return this.refusal;
  }

  /** Stops all writes until a restart. */
  stop(fault: unknown): EngineError {
    this.failure ??= failureOf(fault, WRITING, this.segments.dir);
    this.refuseAll(this.queue.splice(0), this.failure);
    return this.failure;
  }

  private refuseAll(commits: readonly C[], error: EngineError): void {
    for (const commit of commits) commit.refuse(error);
    if (this.queue.length === 0) this.queuedBytes = 0;
    this.wakeIdle();
  }

  private wakeIdle(): void {
    if (this.queue.length === 0 && !this.writing) for (const wake of this.idle.splice(0)) wake();
  }

  /** One timer at a time: it seals if the journal has been quiet, and waits on if not. */
  private sealLater(): void {
    this.sealing ??= this.world.after(this.limits.sealAfterMs, () => {
      this.sealing = undefined;
      if (
        this.writing ||
        this.queue.length > 0 ||
        this.world.monotonicMs() - this.lastWriteMs < this.limits.sealAfterMs / 2
      ) {
        this.sealLater();
      } else void this.seal();
    });
  }

  /** An empty frame. It proves that the batch before it was flushed, so that later damage to that batch is detected. */
  private async seal(): Promise<void> {
    if (this.writing || this.failure !== undefined || this.sealedLsn === this.nextLsn) return;
    this.writing = true;
    try {
      await this.writeFrame(0, 0);
      this.sealedLsn = this.nextLsn;
    } catch (fault) {
      // Without room for a seal the journal stays unsealed, which loses nothing.
      if (!mayPass(fault)) this.stop(fault);
    }
    this.rest();
  }

  private rest(): void {
    this.writing = false;
    this.kick();
    this.wakeIdle();
  }

  /** Writes the waiting commits, seals, and closes the files. */
  async close(): Promise<void> {
    while (this.writing || this.queue.length > 0) {
      await new Promise<void>((wake) => this.idle.push(wake));
    }
    this.sealing?.();
    await this.seal();
    await this.segment?.file.close();
    await this.segments.close();
  }
}
