/**
 * Tells a frame in which one bit has changed from one that was cut short. At the end of the journal both look like the same: a
 * frame that does not prove itself, with nothing good behind it. But one that is whole but for a single bit was written to its
 * end, and may have been acknowledged. Recovery asks before it passes over the end.
 *
 * What must stay true: only a frame that the corrected bit makes valid, and that follows its predecessor in chain and number,
 * counts. A frame cut short passes for one by chance in one of 2^32 cases per bit of the frame, so long frames are not asked.
 */
import { crc32 } from "node:zlib";
import { decodeFrame, FRAME_HEADER_BYTES, type Frame, frameMisses } from "./frame.ts";

/** In a frame of this size chance is one in eight thousand. */
export const MAX_ASKED_BYTES = 65_536;

export interface FlippedBit {
  /** Where in the bytes, and which bit. */
  readonly at: number;
  readonly bit: number;
  /** The frame as it was. */
  readonly frame: Frame;
}

type IsExpected = (frame: Frame) => boolean;

/** The bit that makes a valid frame of what lies at `at`, or undefined. The bytes are as before when it returns. */
export function findFlippedBit(
  bytes: Buffer,
  at: number,
  salt: number,
  isExpected: IsExpected,
): FlippedBit | undefined {
  if (at + FRAME_HEADER_BYTES > bytes.length) return undefined;
  return inHeader(bytes, at, salt, isExpected) ?? inPayload(bytes, at, salt, isExpected);
}

/** The header is short, and its length decides where the frame ends: every bit of it is tried. */
function inHeader(bytes: Buffer, at: number, salt: number, isExpected: IsExpected): FlippedBit | undefined {
  for (let i = at; i < at + FRAME_HEADER_BYTES; i++) {
    for (let bit = 0; bit < 8; bit++) {
      const found = withFlipped(bytes, i, bit, () => decodeFrame(bytes, at, salt, MAX_ASKED_BYTES));
      if (found !== undefined && isExpected(found)) return { at: i, bit, frame: found };
    }
  }
  return undefined;
}

/** A checksum is linear: by how much it is off tells which bit it was. */
function inPayload(bytes: Buffer, at: number, salt: number, isExpected: IsExpected): FlippedBit | undefined {
  const miss = frameMisses(bytes, at, salt, MAX_ASKED_BYTES);
  if (miss === undefined) return undefined;
  const { end, by } = miss;
  for (let bit = 0; bit < 8; bit++) {
    let off = effectOfLastByte(1 << bit);
    for (let i = end - 1; i >= at + FRAME_HEADER_BYTES; i--) {
      if (off === by) {
        const frame = withFlipped(bytes, i, bit, () => decodeFrame(bytes, at, salt, MAX_ASKED_BYTES));
        return frame !== undefined && isExpected(frame) ? { at: i, bit, frame } : undefined;
      }
      off = ((off >>> 8) ^ BYTE_EFFECTS[off & 0xff]!) >>> 0;
    }
  }
  return undefined;
}

/** What the checksum of a text changes by when its last byte changes by this. */
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
