/**
 * The messages of a gRPC call in the bytes of its HTTP/2 stream: a byte that says whether the message is compressed, its length in
 * four bytes, and the message. A call has one for its requests.
 *
 * Invariants: no message is longer than the limit. Bytes are joined once, when their message is complete.
 */
import { Refusal } from "../../core/refusal.ts";

export const HEAD_BYTES = 5;

export interface MessageFrame {
  readonly isCompressed: boolean;
  readonly bytes: Buffer;
}

export class MessageFrames {
  /** Bytes of messages that are not taken. */
  private chunks: Buffer[] = [];
  private length = 0;

  constructor(private readonly maxBytes: number) {}

  get unread(): number {
    return this.length;
  }

  push(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.length += chunk.length;
  }

  /** The next message, or undefined until it is complete. Throws a Refusal for a message that is too long. */
  next(): MessageFrame | undefined {
    if (this.length < HEAD_BYTES) return undefined;
    if (this.chunks[0]!.length < HEAD_BYTES) this.chunks = [Buffer.concat(this.chunks)];
    const head = this.chunks[0]!;
    const size = head.readUInt32BE(1);
    if (size > this.maxBytes) {
      throw new Refusal("too-large", `the request has ${size} bytes; at most ${this.maxBytes} are taken`);
    }
    const end = HEAD_BYTES + size;
    if (this.length < end) return undefined;
    const all = this.chunks.length === 1 ? head : Buffer.concat(this.chunks);
    this.length -= end;
    this.chunks = this.length === 0 ? [] : [all.subarray(end)];
    return { isCompressed: head[0] === 1, bytes: all.subarray(HEAD_BYTES, end) };
  }
}
