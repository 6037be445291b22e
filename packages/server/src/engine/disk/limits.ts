/**
 * The bounds of the disk engine, in one place. `openDisk` takes a part of them; the rest keep these values. What defines bytes on disk
 * is a constant and no setting.
 */
import { ENGINE_BOUNDS, type EngineBounds } from "../bounds.ts";

export interface Limits extends EngineBounds {
  /** The usual size of a journal segment; a larger frame gets a larger segment of its own. */
  readonly segmentBytes: number;
  /** What one batch takes at most, unless a single commit is larger. */
  readonly batchBytes: number;
  /** Commits that wait for the journal; beyond it new ones are refused as overloaded. */
  readonly queueBytes: number;
  /** What may be in the journal and not yet in LMDB; beyond it batches wait. */
  readonly lagBytes: number;
  /** Recent messages kept in memory, applied ones; what is not applied yet is kept regardless. */
  readonly tailBytes: number;
  /** Recycled or prepared segment files beyond the current one. */
  readonly spareSegments: number;
  /** How long after the last batch the journal is sealed. */
  readonly sealAfterMs: number;
  /** How long nothing more must have come before the applier takes on little work. */
  readonly applyAfterMs: number;
  /** How long little work that keeps growing may wait. */
  readonly applyWithinMs: number;
  /** How much work is given to the applier at once without waiting. */
  readonly applyBytes: number;
  /** How long the applier waits before it tries again on a full disk. */
  readonly retryFullMs: number;
  /** How long after a write that found no room the disk counts as full. */
  readonly fullMs: number;
  /** How long the owner of a data directory may take to say that it is alive. */
  readonly lockMs: number;
  /** What one transaction of the applier takes from the journal at most, unless a single frame is larger. */
  readonly transactionBytes: number;
  /** How many keys of garbage one transaction deletes at most. */
  readonly garbageKeys: number;
  /** How many streams' last chunks the applier remembers, so that busy ones need no look-up. */
  readonly busyStreams: number;
  /** By how much the applier's thread is nicer than the others, where threads have priorities of their own. */
  readonly applyNice: number;
  /** How many bytes of the store's leaves a start checks before it is ready; beyond it they are checked when they are needed. */
  readonly startBytes: number;
  /** What the check in the background reads of the store in a second. */
  readonly checkRateBytes: number;
}

/** What the applier is told, in its own thread too. */
export type ApplyLimits = Pick<Limits, "transactionBytes" | "garbageKeys" | "busyStreams" | "applyNice">;

const KIB = 1_024;
const MIB = KIB * KIB;

export const DEFAULT_LIMITS: Limits = {
  ...ENGINE_BOUNDS,
  segmentBytes: 16 * MIB,
  batchBytes: 4 * MIB,
  queueBytes: 64 * MIB,
  lagBytes: 32 * MIB,
  tailBytes: 64 * MIB,
  spareSegments: 3,
  sealAfterMs: 100,
  applyAfterMs: 50,
  applyWithinMs: 1_000,
  applyBytes: MIB,
  retryFullMs: 250,
  fullMs: 5_000,
  lockMs: 2_000,
  transactionBytes: 4 * MIB,
  garbageKeys: 512,
  busyStreams: 20_000,
  applyNice: 10,
  startBytes: 128 * MIB,
  checkRateBytes: 64 * MIB,
};

/** The page of the store; part of the format. */
export const PAGE_BYTES = 16 * KIB;
/**
 * Part of the format. Consecutive messages of a stream share one value up to this size: what fits into a single page with its headers. A larger
 * value needs pages that lie side by side, which are hard to find once trimming has made holes. Measured: with values of
 * 64 KiB in pages of 4 KiB, 250,000 messages/s fell to about 50,000 within a minute of trimming, the apply thread at full
 * load; with one page each they held for as long as was tried (210 s).
 */
export const CHUNK_BYTES = PAGE_BYTES - 384;
/** A new piece joins the stream's last chunk while that one is smaller than this many times the piece. */
export const MERGE_FACTOR = 8;
