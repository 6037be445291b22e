/**
 * Distinguishes a frame with one flipped bit from a frame that was cut short. Recovery calls it before it ignores the end of the
 * journal, where both look alike: an invalid frame with no valid frame behind it. A frame that is whole except for one bit was
 * written to its end, and may have been acknowledged.
 *
 * Invariants: a frame counts only if correcting one bit makes it valid and it follows its predecessor in chain and number. A cut
 * frame passes by chance in one of 2^32 cases per bit of the frame, so long frames are not examined.
 */
import { crc32 } from "node:zlib";
import { decodeFrame, FRAME_HEADER_BYTES, type Frame, frameMisses } from "./frame.ts";

/** In a frame of this size the chance is one in eight thousand. */
export const MAX_ASKED_BYTES = 65_536;

export interface FlippedBit {
  /** The byte and the bit. */
  readonly at: number;
  readonly bit: number;
  /** The frame with the bit corrected. */
  readonly frame: Frame;
}

type IsExpected = (frame: Frame) => boolean;

/** The bit whose correction makes the frame at `at` valid, or undefined. Leaves the bytes unchanged. */
export function findFlippedBit(
  bytes: Buffer,
  at: number,
  salt: number,
  isExpected: IsExpected,
): FlippedBit | undefined {
  if (at + FRAME_HEADER_BYTES > bytes.length) return undefined;
  return inHeader(bytes, at, salt, isExpected) ?? inPayload(bytes, at, salt, isExpected);
}

/** Tries every bit of the header, because the header is short and its length field decides where the frame ends. */
function inHeader(bytes: Buffer, at: number, salt: number, isExpected: IsExpected): FlippedBit | undefined {
  for (let i = at; i < at + FRAME_HEADER_BYTES; i++) {
    for (let bit = 0; bit < 8; bit++) {
      const found = withFlipped(bytes, i, bit, () => decodeFrame(bytes, at, salt, MAX_ASKED_BYTES));
      if (found !== undefined && isExpected(found)) return { at: i, bit, frame: found };
    }
  }
  return undefined;
}

/** A checksum is linear, so its error identifies the bit. */
function inPayload(bytes: Buffer, at: number, salt: number, isExpected: IsExpected): FlippedBit | undefined {
  const miss = frameMisses(bytes, at, salt, MAX_ASKED_BYTES);
  if (miss === undefined) return undefined;
  const { end, by } = miss;
  for (let bit = 0; bit < 8; bit++) {
    let off = effectOfLastByte(1 << bit);
    for (let i = end - 1; i >= at + FRAME_HEADER_BYTES; i--) {
      if (off === by) {
        if (isZero(bytes, i, end)) return undefined;
        const frame = withFlipped(bytes, i, bit, () => decodeFrame(bytes, at, salt, MAX_ASKED_BYTES));
        return frame !== undefined && isExpected(frame) ? { at: i, bit, frame } : undefined;
      }
      off = ((off >>> 8) ^ BYTE_EFFECTS[off & 0xff]!) >>> 0;
    }
  }
  return undefined;
}

/**
 * Whether the frame reads zero from here to its end. Then a cut that lost its last bytes, of which one bit was set, is far more
 * likely than a flip of that very bit, so the frame counts as cut short.
 */
function isZero(bytes: Buffer, from: number, end: number): boolean {
  for (let i = from; i < end; i++) if (bytes[i] !== 0) return false;
  return true;
}

/** The change of a text's checksum when its last byte changes by this. */
function effectOfLastByte(change: number): number {
  return (crc32(Buffer.from([change])) ^ crc32(Buffer.from([0]))) >>> 0;
}

const BYTE_EFFECTS = Uint32Array.from({ length: 256 }, (_, change) => effectOfLastByte(change));

function withFlipped<T>(bytes: Buffer, at: number, bit: number, look: () => T): T {
  bytes[at]! ^= 1 << bit;
  try {
    return look();
  } finally {
    bytes[at]! ^= 1 << bit;
  }
}
