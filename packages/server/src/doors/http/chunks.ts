/**
 * Bytes that arrive in chunks, until they are complete. The doors for HTTP and gRPC collect bodies with it.
 *
 * Invariants: small chunks are joined as they arrive, because a chunk of one byte takes a hundred times its length in memory, and the
 * budget is charged for the length only. A byte is copied at most twice.
 */
const MAX_LOOSE = 1_024;

export class Chunks {
  private buffers: Buffer[] = [];
  /** The buffers at the end that are chunks as they arrived. */
  private loose = 0;
  private bytes = 0;

  get length(): number {
    return this.bytes;
  }

  /** How many buffers hold the bytes. */
  get count(): number {
    return this.buffers.length;
  }

  /** The first buffer; undefined without bytes. */
  get first(): Buffer | undefined {
    return this.buffers[0];
  }

  push(chunk: Buffer): void {
    this.buffers.push(chunk);
    this.bytes += chunk.length;
    if (++this.loose < MAX_LOOSE) return;
    this.buffers.push(Buffer.concat(this.buffers.splice(-MAX_LOOSE)));
    this.loose = 0;
  }

  /** All bytes in one buffer, which stays the only one. */
  join(): Buffer {
    if (this.buffers.length !== 1) this.reset(Buffer.concat(this.buffers));
    return this.first ?? Buffer.alloc(0);
  }

  /** Goes on with these bytes alone. */
  reset(bytes: Buffer): void {
    // An empty part of a buffer would keep all of it.
    this.buffers = bytes.length === 0 ? [] : [bytes];
    this.bytes = bytes.length;
    this.loose = 0;
  }
}
