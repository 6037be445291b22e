/** The pace of the background check and the pins it holds, on the test's clock and with a runner that reads nothing. */
import { describe, expect, it } from "vitest";
import type { World } from "../../core/world.ts";
import { BackgroundCheck, type CheckEvents } from "./background-check.ts";
import type { Unchecked } from "./store.ts";
import type { Checked } from "./verify/store-check.ts";

const MIB = 1_024 * 1_024;

class Rig {
  nowMs = 0;
  readonly waits: number[] = [];
  isBehind = false;
  steps = 0;
  pins = 0;
  readonly pinsAtStep: number[] = [];
  readonly faults: unknown[] = [];
  readonly failures: string[] = [];
  isClosed = false;
  isPassed = false;
  /** Ends the check's current wait. */
  goOn = (): void => undefined;
  readonly check: BackgroundCheck;

  constructor(total: number, spentMs: number) {
    const world = {
      monotonicMs: () => this.nowMs,
      after: (ms: number, task: () => void) => {
        this.waits.push(ms);
        this.goOn = task;
        return () => undefined;
      },
    } as unknown as World;
    const unchecked = {
      pin: () => {
        this.pins++;
        return () => {
          this.pins--;
        };
      },
      passed: () => {
        this.isPassed = true;
      },
    } as unknown as Unchecked;
    const step = async (): Promise<Checked> => {
      const fault = this.faults.shift();
      if (fault !== undefined) throw fault;
      this.steps++;
      this.pinsAtStep.push(this.pins);
      this.nowMs += spentMs;
      const next = this.steps < total ? Buffer.from([this.steps]) : undefined;
      return { kind: "checked", next, bytes: 8 * MIB, rows: 1, totalBytes: total * 8 * MIB };
    };
    const close = async () => {
      this.isClosed = true;
    };
    const events: CheckEvents = {
      isBehind: () => this.isBehind,
      passed: () => undefined,
      failed: ({ code }) => void this.failures.push(code),
      log: () => undefined,
    };
    this.check = new BackgroundCheck(world, 64 * MIB, unchecked, { startAfterMs: 0, step, close }, events);
    this.check.start();
  }

  async turn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("the background check", () => {
  it("waits after each step for the rest of the step's time at its rate", async () => {
    const rig = new Rig(3, 25);
    await rig.turn();
    expect(rig.waits).toEqual([100]);
    rig.goOn();
    await rig.turn();
    expect([rig.steps, rig.waits]).toEqual([2, [100, 100]]);
    rig.goOn();
    await rig.check.ended;
    expect([rig.steps, rig.isPassed, rig.isClosed]).toEqual([3, true, true]);
  });

  it("runs at a tenth of its rate while the store is behind", async () => {
    const rig = new Rig(3, 25);
    rig.isBehind = true;
    await rig.turn();
    expect(rig.waits).toEqual([1_225]);
    await rig.check.close();
  });

  it("pins the snapshot during a step and releases it while it waits", async () => {
    const rig = new Rig(2, 1);
    await rig.turn();
    expect([rig.pinsAtStep, rig.pins]).toEqual([[1], 0]);
    await rig.check.close();
  });

  it("repeats a step that lacked a descriptor, and passes", async () => {
    const rig = new Rig(1, 25);
    rig.faults.push(Object.assign(new Error("made by the test"), { code: "EMFILE" }));
    await rig.turn();
    expect([rig.steps, rig.pins, rig.waits]).toEqual([0, 0, [1_000]]);
    rig.goOn();
    await rig.check.ended;
    expect([rig.steps, rig.isPassed, rig.failures]).toEqual([1, true, []]);
  });

  it("ends at once when it is closed, and does not pass", async () => {
    const rig = new Rig(3, 1);
    await rig.turn();
    await rig.check.close();
    expect([rig.steps, rig.isPassed, rig.isClosed]).toEqual([1, false, true]);
  });
});
