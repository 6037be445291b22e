/**
 * Paces the check of the store that goes on after a start: one step at a time at a fixed rate, a tenth of it while the store is
 * behind. `open.ts` makes it; the engine starts, closes and measures it.
 *
 * Invariants: LMDB's snapshot is pinned during a step and never between two. The check ends once: everything is whole, damage
 * was found, or the store could not be read. The last two stop the engine with the refusal that a start would have given.
 */
import type { Cancel, World } from "../../core/world.ts";
import { EngineError } from "../contract.ts";
import { CheckMeter } from "./check-meter.ts";
import type { CheckRunner } from "./check-runner.ts";
import type { Unchecked } from "./store.ts";
import type { FoundDamage } from "./verify/store-check.ts";

/** What one step reads: large enough that its own cost does not count, small enough to hold a snapshot for moments only. */
const STEP_BYTES = 8 * 1_024 * 1_024;
/** How much slower it goes while the store cannot keep up with the journal. */
const BEHIND_FACTOR = 10;
/** Every key sorts after it. */
const FIRST_KEY = Buffer.from([0]);

export interface CheckEvents {
  isBehind(): boolean;
  passed(): void;
  /** `part` is undefined when the store could not be read. */
  failed(error: EngineError, part: FoundDamage["part"] | undefined): void;
  log(what: string, details: object): void;
}

export class BackgroundCheck {
  readonly meter = new CheckMeter();
  private closed = false;
  private wake: (() => void) | undefined;
  private done: Promise<void> = Promise.resolve();

  constructor(
    private readonly world: World,
    private readonly bytesPerSecond: number,
    private readonly unchecked: Unchecked,
    private readonly runner: CheckRunner,
    private readonly events: CheckEvents,
  ) {}

  start(): void {
    this.done = this.run();
  }

  /** Resolves when the check has ended, or was closed. */
  get ended(): Promise<void> {
    return this.done;
  }

  private async run(): Promise<void> {
    const { events, bytesPerSecond, meter } = this;
    const startedAt = this.world.now();
    meter.result = "running";
    events.log("the check of the store has begun", { bytesPerSecond });
    try {
      await this.wait(this.runner.startAfterMs);
      await this.steps();
    } catch (fault) {
      if (!this.closed) this.fail(fault);
    }
    await this.runner.close();
    if (this.meter.result !== "passed") return;
    this.unchecked.passed();
    events.passed();
    const { rows, bytes } = meter;
    events.log("the check of the store has ended: all of it is whole", {
      rows,
      bytes,
      ms: this.world.now() - startedAt,
    });
  }

  private async steps(): Promise<void> {
    const { meter } = this;
    let from: Uint8Array | undefined = FIRST_KEY;
    while (from !== undefined && !this.closed) {
      const startedAt = this.world.now();
      const step = await this.pinned(from);
      if (step.kind === "damaged") {
        meter.result = "damaged";
        this.events.failed(new EngineError("data-damaged", step.message), step.part);
        return;
      }
      meter.bytes += step.bytes;
      meter.rows += step.rows;
      meter.totalBytes = step.totalBytes;
      from = step.next;
      if (from === undefined) meter.result = "passed";
      else await this.rest(step.bytes, this.world.now() - startedAt);
    }
  }

  private async pinned(from: Uint8Array) {
    const release = this.unchecked.pin();
    try {
      return await this.runner.step(from, STEP_BYTES);
    } finally {
      release();
    }
  }

  private rest(bytes: number, spentMs: number): Promise<void> {
    const slower = this.events.isBehind() ? BEHIND_FACTOR : 1;
    return this.wait((bytes * 1_000 * slower) / this.bytesPerSecond - spentMs);
  }

  private wait(ms: number): Promise<void> {
    if (ms <= 0 || this.closed) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel: Cancel = this.world.after(ms, resolve);
      this.wake = () => {
        cancel();
        resolve();
      };
    });
  }

  private fail(fault: unknown): void {
    this.meter.result = "failed";
    const error =
      fault instanceof EngineError
        ? fault
        : new EngineError("storage-failed", `The check of the store failed: ${String(fault)}.`);
    this.events.failed(error, undefined);
  }

  async close(): Promise<void> {
    this.closed = true;
    this.wake?.();
    await this.done;
  }
}
