/**
 * The bounds of the disk engine, in one place. `openDisk` takes overrides for some; the others keep these defaults.
 *
 * Invariants: a number that defines bytes on disk is a constant and not a setting.
 */
import { ENGINE_BOUNDS, type EngineBounds } from "../bounds.ts";

export interface Limits extends EngineBounds {
  /** The usual size of a journal segment; a larger frame gets a larger segment of its own. */
  readonly segmentBytes: number;
  /** The most bytes of one batch, unless a single commit is larger. */
  readonly batchBytes: number;
  /** Bytes of commits that may wait for the journal; the next commit is refused as overloaded. */
  readonly queueBytes: number;
  /** Bytes that may be in the journal and not yet in LMDB; beyond it batches wait. */
  readonly lagBytes: number;
  /** Bytes of recent, applied messages kept in memory. Messages that are not applied yet stay regardless. */
  readonly tailBytes: number;
  /** About how many bytes of heads and rows that were read from LMDB are kept in memory. */
  readonly cacheBytes: number;
  /** Entities that changed last, whose heads stay in memory although LMDB has them. Each takes about 0.6 KB. */
  readonly keptStates: number;
  /** Recycled or prepared segment files beside the current one. */
  readonly spareSegments: number;
  /** The time from the last batch to the seal of the journal. */
  readonly sealAfterMs: number;
  /** The quiet time after which the applier takes on little work. */
  readonly applyAfterMs: number;
  /** The longest wait of little work that keeps growing. */
  readonly applyWithinMs: number;
  /** The bytes of work that the applier takes on without waiting; up to four times as many while that fills the pages of streams. */
  readonly applyBytes: number;
  /** The wait before the applier retries on a full disk. */
  readonly retryFullMs: number;
  /** How long after a write that found no room the disk counts as full. */
  readonly fullMs: number;
  /** The time in which the owner of a data directory must answer. */
  readonly lockMs: number;
  /** The most journal bytes in one transaction of the applier, unless a single frame is larger. */
  readonly transactionBytes: number;
  /** The most garbage keys that one transaction deletes. */
  readonly garbageKeys: number;
  /** The number of streams whose last chunks the applier remembers, so that busy streams need no look-up. */
  readonly busyStreams: number;
  /** The niceness of the applier's thread, relative to the process; Linux only. */
  readonly applyNice: number;
  /** Bytes of the store's leaves that a start checks before it is ready. The guard and the background check cover the rest. */
  readonly startBytes: number;
  /** Bytes per second that the background check reads. */
  readonly checkRateBytes: number;
}

/** The limits that the applier needs, also in its own thread. */
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
  cacheBytes: 8 * MIB,
  keptStates: 20_000,
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

/** The page size of the store; part of the format. */
export const PAGE_BYTES = 16 * KIB;
/**
 * Part of the format. Consecutive messages of a stream share one value up to this size: one page with its headers. A larger value
 * needs adjacent pages, which are hard to find once trimming has made holes. Measured: with values of 64 KiB in pages of 4 KiB,
 * 250,000 messages/s fell to about 50,000 within a minute of trimming. With one page each, the rate held for the whole run of 210
 * s.
 */
export const CHUNK_BYTES = PAGE_BYTES - 384;
/** A new piece joins the stream's last chunk if that chunk is smaller than this many times the piece. */
export const MERGE_FACTOR = 8;
