/**
 * The end of the journal that is not whole: a frame that names itself the next of its chain and cannot prove itself. Recovery
 * passes over it and tells of it; the doctor shows it, and cuts it when asked.
 *
 * What must stay true: nobody calls it harmless for certain. A crash in the middle of a write leaves it, and then it was never
 * acknowledged; but a last frame of which the disk lost more than a bit looks the same. (One bit is told: flipped-bit.ts.)
 */
import { claimedBytes, FRAME_HEADER_BYTES } from "./frame.ts";

export interface TornTail {
  readonly path: string;
  readonly from: number;
  readonly to: number;
}

/**
 * How many bytes at `at` claim to be the frame that follows the one with this checksum and starts with commit `next`; 0 for the
 * rest of an earlier use of the file, and for a frame of earlier commits.
 */
export function claimToFollow(bytes: Buffer, at: number, previous: number | undefined, next: number): number {
  const rest = bytes.subarray(at, at + FRAME_HEADER_BYTES);
  if (rest.length < FRAME_HEADER_BYTES) return rest.some((byte) => byte !== 0) ? rest.length : 0;
  const claimed = claimedBytes(bytes, at);
  const firstLsn = rest.readDoubleLE(8);
  if (Number.isInteger(firstLsn) && firstLsn > 0 && firstLsn < next) return 0;
  // A header may be damaged itself; any two of these are no chance.
  const signs = [claimed > 0, rest.readUInt32LE(20) === previous, firstLsn === next];
  if (signs.filter(Boolean).length < 2) return 0;
  return Math.min(bytes.length - at, Math.max(claimed, FRAME_HEADER_BYTES));
}
