/**
 * Memory for small things that come and go in about the same order, as the blocks of commits and those of the tail cache do. Many
 * share one piece: one for each would be thousands per second, and both getting them and letting the collector of garbage count
 * them showed as pauses. A piece goes when the last of those in it has gone; or, where whoever took from it says so every time,
 * it is used again.
 */

const PIECE_BYTES = 256 * 1_024;
/** What is as large as this has memory of its own, so that it can be kept without keeping others. */
export const OWN_BYTES = 16 * 1_024;
/** Pieces that wait to be used again; more of them are left to the collector. */
const SPARE_PIECES = 16;

/** Memory that many share. */
export interface Piece {
  readonly buffer: Buffer;
  used: number;
  /** Those who have not given back what they took; for ever more than none once somebody has said that it is kept. */
  takers: number;
}

export class Slab {
  /** What the last one was taken from, to be named when it is given back; undefined when it has memory of its own. */
  lastPiece: Piece | undefined;
  private piece: Piece = { buffer: Buffer.alloc(0), used: 0, takers: 0 };
  private readonly spare: Piece[] = [];

  /** A place that nobody else has, until it is given back. */
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

  /** One of those who took from it needs it no more, and nothing else refers to that place. */
  giveBack(piece: Piece | undefined): void {
    if (piece === undefined || --piece.takers > 0) return;
    piece.used = 0;
    if (piece !== this.piece && this.spare.length < SPARE_PIECES) this.spare.push(piece);
  }
}

/** Somebody refers to a part of it for nobody knows how long: it is not used again, and goes when they have gone. */
export function keepForReaders(piece: Piece): void {
  piece.takers = Number.POSITIVE_INFINITY;
}
