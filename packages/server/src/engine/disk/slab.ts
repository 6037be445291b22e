/**
 * Memory for small things that come and go in about the same order, as the blocks of commits and those of the tail cache do. Many
 * share one piece: one for each would be thousands per second, and both getting them and letting the collector of garbage count
 * them showed as pauses. A piece goes when the last of those in it has gone.
 */

const PIECE_BYTES = 256 * 1_024;
/** What is as large as this has memory of its own, so that it can be kept without keeping others. */
export const OWN_BYTES = 16 * 1_024;

export class Slab {
  private piece = Buffer.alloc(0);
  private used = 0;

  /** Never the same place twice. */
  take(bytes: number): Buffer {
    if (bytes >= OWN_BYTES) return Buffer.allocUnsafeSlow(bytes);
    if (this.used + bytes > this.piece.length) {
      this.piece = Buffer.allocUnsafeSlow(PIECE_BYTES);
      this.used = 0;
    }
    this.used += bytes;
    return this.piece.subarray(this.used - bytes, this.used);
  }
}
