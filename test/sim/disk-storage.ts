/**
 * The disk engine as a storage of simulated runs: its real journal, recovery and applier, on a drive and a store that
 * outlive the process. The scenario tests open it.
 *
 * Invariants: a kill keeps everything that the operating system had accepted; a power cut loses, tears and reorders unsynced
 * writes. Sometimes the drive is full or its flush fails.
 */
import { Applier } from "../../packages/server/src/engine/disk/applier.ts";
import { InlineRunner } from "../../packages/server/src/engine/disk/apply-runner.ts";
import type { Limits } from "../../packages/server/src/engine/disk/defaults.ts";
import { ExtentReader } from "../../packages/server/src/engine/disk/extent-reader.ts";
import type { Files, Release } from "../../packages/server/src/engine/disk/files.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { SimClock } from "./disk/clock.ts";
import { type Fault, SimDrive } from "./disk/files.ts";
import { SimStore } from "./disk/store.ts";
import type { Random } from "./random.ts";
import type { OpenStorage } from "./storage.ts";
import type { Process } from "./world.ts";

export const diskStorage: OpenStorage = (world) => {
  const random = world.random.branch();
  const clock = new DriveClock(random, random.pick([0, 2, 10]));
  const drive = new SimDrive(clock);
  const store = new SimStore();
  const limits = drawLimits(random);
  drive.fault = drawFault(random);
  return {
    async open(process) {
      clock.process = process;
      const files = unlockedByDeath(drive.files(), process);
      return openWith(
        { dir: "/data", world: process, limits },
        {
          files,
          openStore: () => store,
          startApply: ({ journalDir }, at) => new InlineRunner(new Applier(at), new ExtentReader(files, journalDir)),
        },
      );
    },
    died(how) {
      if (how === "power-cut") drive.cut();
    },
    calm() {
      drive.fault = undefined;
    },
  };
};

/** Small limits, so that a run meets every case: segments run out and are reused, lag delays writers, caches are empty. */
function drawLimits(random: Random): Partial<Limits> {
  const segmentBytes = random.pick([1_024, 4_096, 32_768]);
  const batchBytes = random.pick([512, 4_096]);
  const lagBytes = random.pick([2_048, 65_536]);
  return {
    segmentBytes,
    batchBytes,
    lagBytes,
    // The applier starts before writers and the fan-out queue wait for it, as with the limits of a real server.
    applyBytes: Math.min(random.pick([1, 1, 700, 65_536]), lagBytes / 4),
    tailBytes: random.pick([0, 0, 1_000, 1_000_000]),
    cacheBytes: random.pick([0, 1_000, 1_000_000]),
    keptStates: random.pick([0, 0, 3, 1_000]),
    spareSegments: random.pick([0, 2]),
    sealAfterMs: random.pick([3, 100]),
    applyAfterMs: random.pick([2, 2, 50]),
    applyWithinMs: random.pick([2, 50, 1_000]),
    retryFullMs: 20,
  };
}

function drawFault(random: Random): Fault | undefined {
  const kind = random.pick(["none", "none", "none", "full", "broken"] as const);
  if (kind === "none") return undefined;
  const share = random.pick([0.002, 0.02]);
  return (op) => {
    if (!random.chance(share)) return undefined;
    if (kind === "broken") return op === "sync" ? fault("EIO") : undefined;
    return op === "write" || op === "create" ? fault("ENOSPC") : undefined;
  };
}

function fault(code: string): Error {
  return Object.assign(new Error(`simulated ${code}`), { code });
}

/**
 * The clock of the simulated drive, on the events of the simulated world: an operation ends with the process that requested
 * it.
 */
class DriveClock extends SimClock {
  process!: Process;

  constructor(
    private readonly chances: Random,
    private readonly maxMs: number,
  ) {
    super(0);
    this.now = () => this.process.now();
    this.after = (ms, task) => this.process.after(ms, task);
    this.random = () => chances.next();
  }

  override io<T>(run: () => T): Promise<T> {
    const { process } = this;
    return new Promise((resolve, reject) => {
      process.schedule("io", this.chances.between(0, this.maxMs), () => {
        try {
          resolve(run());
        } catch (refusal) {
          reject(refusal);
        }
      });
    });
  }

  /** The world has already forgotten a dead process. */
  override forget(): void {}
}

/** The operating system releases the lock of a dead process. */
function unlockedByDeath(files: Files, process: Process): Files {
  const lock = async (dir: string): Promise<Release> => {
    const release = await files.lock(dir);
    process.onEnd(() => void release());
    return release;
  };
  return { ...files, lock };
}
