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
  private piece: Piece = { buffer: Buffer.alloc(0), used: 0, takers: 0 };
  private readonly spare: Piece[] = [];

  /** A buffer that no other user has, until it is given back. */
  take(bytes: number): Buffer {
    if (bytes >= OWN_BYTES) {
      this.lastPiece = undefined;
      return Buffer.allocUnsafeSlow(bytes);
    }
    if (this.piece.used + bytes > this.piece.buffer.length) {
      this.piece = this.spare.pop() ?? { buffer: Buffer.allocUnsafeSlow(PIECE_BYTES), used: 0, takers: 0 };
    }
    const { piece } = this;
    piece.used += bytes;
    piece.takers++;
    this.lastPiece = piece;
    return piece.buffer.subarray(piece.used - bytes, piece.used);
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
