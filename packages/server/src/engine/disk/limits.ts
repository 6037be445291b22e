/** The bounds of the disk engine, in one place. `openDisk` takes a part of them; the rest keep these values. */
export interface Limits {
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
  /** How long little work may wait for the applier. */
  readonly applyAfterMs: number;
  /** How much work is given to the applier at once without waiting. */
  readonly applyBytes: number;
  /** How long the applier waits before it tries again on a full disk. */
  readonly retryFullMs: number;
  /** What is read of the store before it is opened: everything, or all but messages on pages of their own. */
  readonly verify: "structure" | "all";
}

const KIB = 1_024;
const MIB = KIB * KIB;

export const DEFAULT_LIMITS: Limits = {
  segmentBytes: 16 * MIB,
  batchBytes: 4 * MIB,
  queueBytes: 64 * MIB,
  lagBytes: 32 * MIB,
  tailBytes: 64 * MIB,
  spareSegments: 3,
  sealAfterMs: 100,
  applyAfterMs: 50,
  applyBytes: MIB,
  retryFullMs: 250,
  verify: "all",
};

/** What one transaction of the applier takes from the journal at most, unless a single frame is larger. */
export const TRANSACTION_BYTES = 4 * MIB;
/** The page of the store. */
export const PAGE_BYTES = 16 * KIB;
/**
 * Consecutive messages of a stream share one value up to this size: what fits into a single page with its headers. A larger
 * value needs pages that lie side by side, which are hard to find once trimming has made holes. Measured: with values of
 * 64 KiB in pages of 4 KiB, 250,000 messages/s fell to about 50,000 within a minute of trimming, the apply thread at full
 * load; with one page each they held for as long as was tried (210 s).
 */
export const CHUNK_BYTES = PAGE_BYTES - 384;
/** A new piece joins the stream's last chunk while that one is smaller than this many times the piece. */
export const MERGE_FACTOR = 8;
/** How many keys of garbage one transaction deletes at most. */
export const GARBAGE_KEYS = 512;
