/**
 * The end of the journal that is not whole: a frame that names itself the next of its chain and cannot prove itself. Recovery
 * passes over it and tells of it; the doctor shows it, and cuts it when asked.
 *
 * What must stay true: nobody calls it harmless for certain. A crash in the middle of a write leaves it, and then it was never
 * acknowledged; but a last frame whose bytes have changed on the disk looks the same.
 */
import { claimedBytes, FRAME_HEADER_BYTES } from "./frame.ts";

export interface TornTail {
  readonly path: string;
  readonly from: number;
  readonly to: number;
}

/** How many bytes at `at` claim to follow the frame with this checksum; 0 for the rest of an earlier use of the file. */
export function claimToFollow(bytes: Buffer, at: number, previous: number | undefined, isNext: IsNext): number {
  const rest = bytes.subarray(at, at + FRAME_HEADER_BYTES);
  if (rest.length < FRAME_HEADER_BYTES) return rest.some((byte) => byte !== 0) ? rest.length : 0;
  const claimed = claimedBytes(bytes, at);
  if (claimed === 0 || rest.readUInt32LE(20) !== previous || !isNext(rest.readDoubleLE(8))) return 0;
  return Math.min(bytes.length - at, claimed);
}

/** Judges the number of the first commit that a frame claims to hold. */
type IsNext = (firstLsn: number) => boolean;
