/**
 * The layout of LMDB's file, as far as the verifier needs it. Pages have one size. The first two are metas. Every other page
 * belongs to one of two trees (rows, free list), holds a value too large for a leaf, or is free. It is LMDB's 64-bit
 * little-endian format, version 2, which the `lmdb` package writes on every supported platform.
 *
 *   any page            meta, behind the header           tree record, 48 bytes
 *    0  u64  number      0  u32  magic                     0  u32  size of a page (free list only)
 *    8  u64  txn         4  u32  version                   4  u16  flags
 *   16  u16  unused      8  u64  address, 0                6  u16  depth
 *   18  u16  kind       16  u64  size of the map           8  u64  branch pages
 *   20  u16  lower      24  48   record of the free list  16  u64  leaf pages
 *   22  u16  upper      72  48   record of the rows       24  u64  overflow pages
 *       or              120 u64  last page                32  u64  entries
 *   20  u32  pages      128 u64  txn                      40  u64  root page, all ones for none
 *                       136 u64  boot
 *
 * Branches and leaves: u16 places of their nodes from byte 24 up to `lower`, then room, then the nodes from `upper` to the end.
 * All three count from byte 24. A node starts at an even place:
 *
 *   leaf node      0 u32 length of the value, 4 u16 flags, 6 u16 length of the key, 8 the key, then the value;
 *                  with flag 1 the value lies on overflow pages: u64 first page, u64 txn, u64 pages
 *   branch node    0 u48 page below, 6 u16 length of the key, 8 the key: no key below the page sorts before it
 */
import { PAGE_BYTES } from "../defaults.ts";

export { PAGE_BYTES };
export const HEADER_BYTES = 24;
export const META_BYTES = 144;
export const NODE_BYTES = 8;
/** The reference to a value on pages of its own: first page, txn and number of pages. */
export const OVERFLOW_BYTES = 24;
/** Places in a page count from the end of its header. */
export const ROOM_BYTES = PAGE_BYTES - HEADER_BYTES;

export const MAGIC = 0xbeefc0de;
export const VERSION = 2;
export const BRANCH = 1;
export const LEAF = 2;
export const OVERFLOW = 4;
export const META = 8;
/** A leaf node whose value lies on pages of its own. */
export const LARGE = 1;
export const NO_PAGE = Number.POSITIVE_INFINITY;

export interface TreeRecord {
  readonly pageBytes: number;
  readonly flags: number;
  readonly depth: number;
  readonly branches: number;
  readonly leaves: number;
  readonly overflows: number;
  readonly entries: number;
  readonly root: number;
}

export interface Meta {
  readonly number: number;
  readonly kind: number;
  readonly magic: number;
  readonly version: number;
  readonly address: number;
  readonly free: TreeRecord;
  readonly rows: TreeRecord;
  readonly lastPage: number;
  readonly txn: number;
}

/** Whether LMDB uses the layout above on this processor: 64-bit numbers, low byte first. */
export const isLayoutKnown = (arch: string): boolean => ["x64", "arm64", "loong64", "riscv64"].includes(arch);

const U32 = 2 ** 32;

/** Exact up to 2^53. A larger number is no valid count here, and stays larger. All ones is `NO_PAGE`. */
export function u64(from: Buffer, at: number): number {
  const low = u32(from, at);
  const high = u32(from, at + 4);
  if (low === U32 - 1 && high === U32 - 1) return NO_PAGE;
  return high * U32 + low;
}

/** Like `u16`, without the checks of Buffer's own readers, because callers know that the place is within the page. */
export const u32 = (from: Buffer, at: number): number =>
  (from[at]! | (from[at + 1]! << 8) | (from[at + 2]! << 16) | (from[at + 3]! << 24)) >>> 0;

export const u16 = (from: Buffer, at: number): number => from[at]! | (from[at + 1]! << 8);

export function readMetaPage(page: Buffer): Meta {
  const at = HEADER_BYTES;
  return {
    number: u64(page, 0),
    kind: u16(page, 18),
    magic: page.readUInt32LE(at),
    version: page.readUInt32LE(at + 4),
    address: u64(page, at + 8),
    free: readRecord(page, at + 24),
    rows: readRecord(page, at + 72),
    lastPage: u64(page, at + 120),
    txn: u64(page, at + 128),
  };
}

function readRecord(page: Buffer, at: number): TreeRecord {
  return {
    pageBytes: page.readUInt32LE(at),
    flags: u16(page, at + 4),
    depth: u16(page, at + 6),
    branches: u64(page, at + 8),
    leaves: u64(page, at + 16),
    overflows: u64(page, at + 24),
    entries: u64(page, at + 32),
    root: u64(page, at + 40),
  };
}

/** The number of pages of a value; only the first has a header. */
export const overflowPages = (bytes: number): number => Math.floor((HEADER_BYTES - 1 + bytes) / PAGE_BYTES) + 1;
