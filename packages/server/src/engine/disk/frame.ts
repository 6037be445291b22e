/**
 * The bytes of a journal segment: a header, then frames at multiples of 8 bytes, then the remains of an earlier use of the file.
 * The journal writes them; recovery and the applier read them.
 *
 *   segment header, 64 bytes                      frame header, 32 bytes, then the payload, then zeroes up to 8 bytes
 *    0  8    magic "SLUICEJL"                      0  u32  magic
 *    8  u32  format version                        4  u32  length of the payload
 *   12  u32  salt                                  8  f64  lsn of the first commit
 *   16  f64  number of the segment                16  u32  number of commits; 0 is a seal
 *   24  u32  1: the chain of frames starts here   20  u32  checksum of the frame before
 *   60  u32  crc32 of the bytes before            28  u32  crc32 of bytes 0 to 28, then the payload, seeded with the salt
 *
 * Invariants: each use of a file has a random salt that never leaves the file. So neither a payload nor an older frame in a
 * recycled file can pass for a frame. The journal writes frame n+1 only after it flushed frame n; frame n+1 names the checksum of
 * frame n, also across segments. So every frame before a valid frame was once valid.
 */
import { crc32 } from "node:zlib";

export const FORMAT_VERSION = 1;
export const SEGMENT_HEADER_BYTES = 64;
export const FRAME_HEADER_BYTES = 32;

const SEGMENT_MAGIC = Buffer.from("SLUICEJL");
const FRAME_MAGIC = 0x4d52464a;
export const FRAME_MAGIC_BYTES = Buffer.from([0x4a, 0x46, 0x52, 0x4d]);

export interface SegmentHeader {
  readonly number: number;
  readonly salt: number;
  readonly chainStart: boolean;
}

export function encodeSegmentHeader(header: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
  SEGMENT_MAGIC.copy(bytes);
  bytes.writeUInt32LE(FORMAT_VERSION, 8);
  bytes.writeUInt32LE(header.salt, 12);
  bytes.writeDoubleLE(header.number, 16);
  bytes.writeUInt32LE(header.chainStart ? 1 : 0, 24);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 60)), 60);
  return bytes;
}

export function decodeSegmentHeader(bytes: Buffer): SegmentHeader | undefined {
  if (bytes.length < SEGMENT_HEADER_BYTES || !bytes.subarray(0, 8).equals(SEGMENT_MAGIC)) return undefined;
  if (bytes.readUInt32LE(60) !== crc32(bytes.subarray(0, 60)) || bytes.readUInt32LE(8) !== FORMAT_VERSION)
    return undefined;
  return {
    salt: bytes.readUInt32LE(12),
    number: bytes.readDoubleLE(16),
    chainStart: bytes.readUInt32LE(24) === 1,
  };
}

/** The predecessor's checksum in the first frame of a chain. */
export const chainSeed = (header: SegmentHeader): number => crc32(encodeSegmentHeader(header));

export interface Frame {
  readonly firstLsn: number;
  readonly count: number;
  readonly previous: number;
  readonly checksum: number;
  /** The start of the payload within the bytes. */
  readonly start: number;
  readonly end: number;
  /** The start of the next frame. */
  readonly next: number;
}

/** The bytes that a payload takes in a segment. */
export const frameBytes = (payload: number): number => (FRAME_HEADER_BYTES + payload + 7) & ~7;

/** Completes a frame whose payload is already in place behind the room for the header; returns its checksum. */
export function finishFrame(
  into: Buffer,
  payload: number,
  frame: { readonly firstLsn: number; readonly count: number; readonly previous: number },
  salt: number,
): number {
  into.writeUInt32LE(FRAME_MAGIC, 0);
  into.writeUInt32LE(payload, 4);
  into.writeDoubleLE(frame.firstLsn, 8);
  into.writeUInt32LE(frame.count, 16);
  into.writeUInt32LE(frame.previous, 20);
  into.writeUInt32LE(0, 24);
  into.fill(0, FRAME_HEADER_BYTES + payload, frameBytes(payload));
  const checksum = checksumOf(into, 0, FRAME_HEADER_BYTES + payload, salt);
  into.writeUInt32LE(checksum, 28);
  return checksum;
}

function checksumOf(bytes: Buffer, start: number, end: number, salt: number): number {
  const header = crc32(bytes.subarray(start, start + 28), salt);
  return crc32(bytes.subarray(start + FRAME_HEADER_BYTES, end), header);
}

/** The length that the frame at `at` claims, header included; 0 if there is no frame header. */
export function claimedBytes(bytes: Buffer, at: number): number {
  if (at + FRAME_HEADER_BYTES > bytes.length || bytes.readUInt32LE(at) !== FRAME_MAGIC) return 0;
  return frameBytes(bytes.readUInt32LE(at + 4));
}

/** The frame at this place; undefined if there is no valid one, or only one longer than `maxBytes`. */
export function decodeFrame(bytes: Buffer, at: number, salt: number, maxBytes?: number): Frame | undefined {
  const miss = frameMisses(bytes, at, salt, maxBytes);
  if (miss === undefined || miss.by !== 0) return undefined;
  return {
    firstLsn: bytes.readDoubleLE(at + 8),
    count: bytes.readUInt32LE(at + 16),
    previous: bytes.readUInt32LE(at + 20),
    checksum: bytes.readUInt32LE(at + 28),
    start: at + FRAME_HEADER_BYTES,
    end: miss.end,
    next: at + claimedBytes(bytes, at),
  };
}

/** The end of the claimed frame, and the bits by which its checksum is wrong: 0 for a valid frame. */
export function frameMisses(
  bytes: Buffer,
  at: number,
  salt: number,
  maxBytes = Number.POSITIVE_INFINITY,
): { readonly end: number; readonly by: number } | undefined {
  const claimed = claimedBytes(bytes, at);
  if (claimed === 0 || claimed > maxBytes) return undefined;
  const end = at + FRAME_HEADER_BYTES + bytes.readUInt32LE(at + 4);
  if (end > bytes.length) return undefined;
  return { end, by: (checksumOf(bytes, at, end, salt) ^ bytes.readUInt32LE(at + 28)) >>> 0 };
}

/** The place of the next valid frame after `from`; undefined if there is none. */
export function findFrame(bytes: Buffer, from: number, salt: number): number | undefined {
  let at = bytes.indexOf(FRAME_MAGIC_BYTES, from);
  while (at !== -1) {
    if (at % 8 === 0 && decodeFrame(bytes, at, salt) !== undefined) return at;
    at = bytes.indexOf(FRAME_MAGIC_BYTES, at + 1);
  }
  return undefined;
}
