/**
 * Memory for small buffers that come and go in about the same order: the blocks of commits and those of the tail cache. Many
 * buffers share one piece, because thousands of allocations per second caused visible garbage collection pauses.
 *
 * Invariants: a piece is collected when its last buffer is unreferenced. It is reused instead if every user of it has given its
 * buffer back.
 */

const PIECE_BYTES = 256 * 1_024;
/** A buffer of this size has memory of its own, so that keeping it keeps no other. */
export const OWN_BYTES = 16 * 1_024;
/** Pieces that wait for reuse; the collector takes the rest. */
const SPARE_PIECES = 16;
const NOTHING = Buffer.alloc(0);

/** Memory that many buffers share. */
export interface Piece {
  readonly buffer: Buffer;
  used: number;
  /** Buffers that were not given back. It never falls to zero once `keepForReaders` was called. */
  takers: number;
}

export class Slab {
  /** The piece of the last taken buffer, for `giveBack`; undefined if that buffer has memory of its own. */
  lastPiece: Piece | undefined;
  /** The memory that the last taken buffer is a part of. */
  lastMemory: Buffer = NOTHING;
  private piece: Piece = { buffer: NOTHING, used: 0, takers: 0 };
  private readonly spare: Piece[] = [];

  /** A buffer that no other user has, until it is given back. */
  take(bytes: number): Buffer {
    const at = this.takePlace(bytes);
    return this.lastMemory.subarray(at, at + bytes);
  }

  /** As `take`, for users that keep thousands: returns where in `lastMemory` the buffer begins, and makes no object for it. */
  takePlace(bytes: number): number {
    if (bytes >= OWN_BYTES) {
      this.lastPiece = undefined;
      this.lastMemory = Buffer.allocUnsafeSlow(bytes);
      return 0;
    }
    if (this.piece.used + bytes > this.piece.buffer.length) {
      this.piece = this.spare.pop() ?? { buffer: Buffer.allocUnsafeSlow(PIECE_BYTES), used: 0, takers: 0 };
    }
    const { piece } = this;
    piece.used += bytes;
    piece.takers++;
    this.lastPiece = piece;
    this.lastMemory = piece.buffer;
    return piece.used - bytes;
  }

  /** Gives back one buffer of the piece. No other reference to that buffer may exist. */
  giveBack(piece: Piece | undefined): void {
    if (piece === undefined || --piece.takers > 0) return;
    piece.used = 0;
    if (piece !== this.piece && this.spare.length < SPARE_PIECES) this.spare.push(piece);
  }
}

/** Marks a piece that readers refer to for an unknown time: it is never reused, and the collector frees it after them. */
export function keepForReaders(piece: Piece): void {
  piece.takers = Number.POSITIVE_INFINITY;
}
