/**
 * Paces the check of the store that continues after a start: one step at a time at a fixed rate, and at a tenth of it while the
 * store is behind. `open.ts` makes it; the engine starts, closes and measures it.
 *
 * Invariants: LMDB's snapshot is pinned during a step and never between two. The check ends once: everything is whole, damage was
 * found, or the store could not be read. The last two stop the engine with the error that a start would have given. A step that
 * lacked a descriptor or memory is repeated.
 */
import type { Cancel, World } from "../../core/world.ts";
import type { EngineError } from "../contract.ts";
import { CheckMeter } from "./check-meter.ts";
import type { CheckRunner } from "./check-runner.ts";
import { toEngineError } from "./sent-error.ts";
import type { Unchecked } from "./store.ts";
import { engineErrorOf, mayPass } from "./system-fault.ts";
import type { Checked, FoundDamage } from "./verify/store-check.ts";

/** The bytes of one step: large enough that its overhead does not count, small enough to pin a snapshot only briefly. */
const STEP_BYTES = 8 * 1_024 * 1_024;
/** How much slower the check runs while the store cannot keep up with the journal. */
const BEHIND_FACTOR = 10;
/** The wait before a step that lacked a descriptor or memory is repeated. */
const SHORTAGE_MS = 1_000;
/** Sorts before every key. */
const FIRST_KEY = Buffer.from([0]);

export interface CheckEvents {
  isBehind(): boolean;
  passed(): void;
  /** `part` is undefined if the store could not be read. */
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

  /** Resolves when the check has ended or was closed. */
  get ended(): Promise<void> {
    return this.done;
  }

  private async run(): Promise<void> {
    const { events, bytesPerSecond, meter } = this;
    const startedAt = this.world.monotonicMs();
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
      ms: Math.round(this.world.monotonicMs() - startedAt),
    });
  }

  private async steps(): Promise<void> {
    const { meter } = this;
    let from: Uint8Array | undefined = FIRST_KEY;
    while (from !== undefined && !this.closed) {
      const startedAt = this.world.monotonicMs();
      const step = await this.pinned(from);
      if (step === "short") {
        await this.wait(SHORTAGE_MS);
        continue;
      }
      if (step.kind === "damaged") {
        meter.result = "damaged";
        this.events.failed(toEngineError(step.error), step.part);
        return;
      }
      meter.bytes += step.bytes;
      meter.rows += step.rows;
      meter.totalBytes = step.totalBytes;
      from = step.next;
      if (from === undefined) meter.result = "passed";
      else await this.rest(step.bytes, this.world.monotonicMs() - startedAt);
    }
  }

  private async pinned(from: Uint8Array): Promise<Checked | FoundDamage | "short"> {
    const release = this.unchecked.pin();
    try {
      return await this.runner.step(from, STEP_BYTES);
    } catch (fault) {
      if (!mayPass(fault)) throw fault;
      return "short";
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
    this.events.failed(engineErrorOf(fault, "The check of the store", "the store"), undefined);
  }

  async close(): Promise<void> {
    this.closed = true;
    this.wake?.();
    await this.done;
  }
}
