/**
 * Thousands of power cuts on a simulated drive that loses, tears and reorders every write that was not synced. Every seed runs
 * several processes on one directory; a failure names the seed, and SLUICE_SEED runs it alone. SLUICE_DEEP=1 runs twenty times as
 * many.
 */
import { describe, expect, it } from "vitest";
import { type Engine, EngineError, entity } from "../../packages/server/src/engine/contract.ts";
import { Applier } from "../../packages/server/src/engine/disk/applier.ts";
import { InlineRunner } from "../../packages/server/src/engine/disk/apply-runner.ts";
import type { Limits } from "../../packages/server/src/engine/disk/defaults.ts";
import { ExtentReader } from "../../packages/server/src/engine/disk/extent-reader.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { SimClock } from "../sim/disk/clock.ts";
import { SimDrive } from "../sim/disk/files.ts";
import { SimStore } from "../sim/disk/store.ts";
import { Storyteller } from "./story.ts";

const SEEDS = process.env.SLUICE_DEEP === "1" ? 40_000 : 150;
const ONLY = process.env.SLUICE_SEED === undefined ? undefined : Number(process.env.SLUICE_SEED);
const ENTITIES = 4;
const LIVES = 3;

/** Small limits, so that a short run meets every case: segments run out and are recycled, and lag holds writers back. */
const LIMITS: Partial<Limits> = {
  segmentBytes: 2_048,
  batchBytes: 1_024,
  lagBytes: 6_000,
  applyBytes: 700,
  tailBytes: 1_500,
  keptStates: 2,
  spareSegments: 2,
  sealAfterMs: 3,
  applyAfterMs: 2,
  applyWithinMs: 2,
  retryFullMs: 3,
};

class Scene {
  readonly clock: SimClock;
  readonly drive: SimDrive;
  readonly store = new SimStore();
  readonly tellers: Storyteller[];

  constructor(readonly seed: number) {
    this.clock = new SimClock(seed);
    this.drive = new SimDrive(this.clock);
    this.tellers = Array.from(
      { length: ENTITIES },
      (_, i) => new Storyteller(entity("p", "stream", `s${i}`), (limit) => this.clock.below(limit)),
    );
  }

  open(): Promise<Engine> {
    const files = this.drive.files();
    return openWith(
      { dir: "/d", world: this.clock, limits: LIMITS },
      {
        files,
        openStore: () => this.store,
        startApply: ({ journalDir }, store) =>
          new InlineRunner(new Applier(store), new ExtentReader(files, journalDir)),
      },
    );
  }

  /** Lets the writers write for some steps, then cuts the power at any point. */
  async live(steps: number): Promise<void> {
    let engine: Engine | undefined;
    let fault: unknown;
    this.open().then(
      (opened) => {
        engine = opened;
        for (const teller of this.tellers) void teller.tell(opened, () => this.clock.io(() => undefined));
      },
      (refusal) => {
        fault = refusal;
      },
    );
    for (let i = 0; i < steps || (engine === undefined && fault === undefined && i < steps * 2); i++)
      await this.clock.step();
    if (fault !== undefined && !this.mayRefuse(fault)) throw fault;
    this.drive.cut();
  }

  /** A failing drive may keep the engine from opening, but may never cause damage. */
  private mayRefuse(fault: unknown): boolean {
    const failing = this.drive.fault !== undefined || this.store.fault !== undefined;
    return failing && fault instanceof EngineError && fault.code !== "data-damaged";
  }

  async check(): Promise<void> {
    const engine = await this.clock.until(this.open());
    for (const teller of this.tellers) {
      const wrong = await teller.check(engine);
      if (wrong !== undefined) throw new Error(wrong);
    }
    // The check closes the engine half of the time, and is cut too otherwise.
    if (this.clock.chance(0.5)) await this.clock.until(engine.close());
    else this.drive.cut();
  }
}

async function play(seed: number, prepare: (scene: Scene) => void = () => undefined): Promise<Scene> {
  const scene = new Scene(seed);
  try {
    for (let life = 0; life < LIVES; life++) {
      prepare(scene);
      await scene.live(10 + scene.clock.below(250));
      scene.drive.fault = undefined;
      scene.store.fault = undefined;
      await scene.check();
    }
    return scene;
  } catch (fault) {
    throw new Error(`seed ${seed}: ${(fault as Error).stack ?? fault}`);
  }
}

const seeds = (count: number): number[] =>
  ONLY === undefined ? Array.from({ length: count }, (_, i) => i + 1) : [ONLY];
const full = (): Error => Object.assign(new Error("no space left"), { code: "ENOSPC" });
const short = (): Error => Object.assign(new Error("too many open files"), { code: "EMFILE" });
const broken = (): Error => Object.assign(new Error("input/output error"), { code: "EIO" });

describe("after a power cut", () => {
  it(`every acknowledged commit is there and none by half, for ${SEEDS} seeds`, {
    timeout: SEEDS * 500,
  }, async () => {
    let told = 0;
    for (const seed of seeds(SEEDS)) {
      const scene = await play(seed);
      for (const teller of scene.tellers) told += Number(teller.known.rows.total ?? 0);
    }
    // The runs were long enough to mean something.
    expect(told).toBeGreaterThan(SEEDS);
  });

  it("a commit refused for lack of space or descriptors is never visible, and all others are", {
    timeout: SEEDS * 500,
  }, async () => {
    for (const seed of seeds(SEEDS / 5)) {
      await play(seed, ({ drive, store, clock }) => {
        let left = clock.below(20_000);
        drive.fault = (op, _path, bytes) => {
          if (op !== "write" && op !== "create") return undefined;
          left -= bytes ?? 0;
          // Space comes back now and then.
          if (left < 0 && clock.chance(0.2)) left = clock.below(10_000);
          return left < 0 ? (clock.chance(0.5) ? full() : short()) : undefined;
        };
        store.fault = () => (clock.chance(0.1) ? new EngineError("storage-full", "no space left") : undefined);
      });
    }
  });

  it("a failed sync or write stops the writer, and acknowledged commits stay", { timeout: SEEDS * 500 }, async () => {
    for (const seed of seeds(SEEDS / 5)) {
      await play(seed, ({ drive, clock }) => {
        let left = clock.below(60);
        drive.fault = (op) =>
          (op === "sync" || op === "write") && --left < 0 && clock.chance(0.5) ? broken() : undefined;
      });
    }
  });
});
