/** How fast the check in the background goes, and what it holds meanwhile: on a clock of the test, with a runner that reads nothing. */
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
  isClosed = false;
  isPassed = false;
  /** Ends the wait that the check is in. */
  goOn = (): void => undefined;
  readonly check: BackgroundCheck;

  constructor(total: number, spentMs: number) {
    const world = {
      now: () => this.nowMs,
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
      this.steps++;
      this.pinsAtStep.push(this.pins);
      this.nowMs += spentMs;
      const next = this.steps < total ? Buffer.from([this.steps]) : undefined;
      return { kind: "checked", next, bytes: 8 * MIB, rows: 1, totalBytes: total * 8 * MIB };
    };
    const close = async () => {
      this.isClosed = true;
    };
    const events = { isBehind: () => this.isBehind, passed: () => undefined, log: () => undefined };
    this.check = new BackgroundCheck(
      world,
      64 * MIB,
      unchecked,
      { startAfterMs: 0, step, close },
      events as unknown as CheckEvents,
    );
    this.check.start();
  }

  async turn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("the check in the background", () => {
  it("rests after each step for what is left of the step's time at its rate", async () => {
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

  it("goes at a tenth of its rate while the store is behind", async () => {
    const rig = new Rig(3, 25);
    rig.isBehind = true;
    await rig.turn();
    expect(rig.waits).toEqual([1_225]);
    await rig.check.close();
  });

  it("pins the snapshot during a step and lets go of it while it rests", async () => {
    const rig = new Rig(2, 1);
    await rig.turn();
    expect([rig.pinsAtStep, rig.pins]).toEqual([[1], 0]);
    await rig.check.close();
  });

  it("ends at once when it is closed, and has passed nothing", async () => {
    const rig = new Rig(3, 1);
    await rig.turn();
    await rig.check.close();
    expect([rig.steps, rig.isPassed, rig.isClosed]).toEqual([1, false, true]);
  });
});
