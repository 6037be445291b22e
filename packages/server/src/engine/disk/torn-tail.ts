/**
 * The torn end of the journal: an invalid frame that names itself the next of its chain. Recovery ignores and reports it; the
 * doctor shows it, and cuts it on request.
 *
 * Invariants: no caller may call it harmless for certain. A crash in the middle of a write leaves a frame that was never
 * acknowledged. A last frame of which the disk lost more than one bit looks the same. (`flipped-bit.ts` detects one bit.)
 */
import { claimedBytes, FRAME_HEADER_BYTES } from "./frame.ts";

export interface TornTail {
  readonly path: string;
  readonly from: number;
  readonly to: number;
}

/**
 * How many bytes at `at` claim to be the frame that follows the one with this checksum and starts with commit `next`. 0 for the
 * remains of an earlier use of the file, and for a frame of earlier commits.
 */
export function claimToFollow(bytes: Buffer, at: number, previous: number | undefined, next: number): number {
  const rest = bytes.subarray(at, at + FRAME_HEADER_BYTES);
  if (rest.length < FRAME_HEADER_BYTES) return rest.some((byte) => byte !== 0) ? rest.length : 0;
  const claimed = claimedBytes(bytes, at);
  const firstLsn = rest.readDoubleLE(8);
  if (Number.isInteger(firstLsn) && firstLsn > 0 && firstLsn < next) return 0;
  // The header may be damaged itself; any two of these signs are no coincidence.
  const signs = [claimed > 0, rest.readUInt32LE(20) === previous, firstLsn === next];
  if (signs.filter(Boolean).length < 2) return 0;
  return Math.min(bytes.length - at, Math.max(claimed, FRAME_HEADER_BYTES));
}
