/**
 * The messages of a gRPC call in the bytes of its HTTP/2 stream: a byte that says whether the message is compressed, its length in
 * four bytes, and the message. A call has one for its requests.
 *
 * Invariants: no message is longer than the limit. Its bytes are joined when it is complete.
 */
import { Refusal } from "../../core/refusal.ts";
import { Chunks } from "../http/chunks.ts";

export const HEAD_BYTES = 5;

export interface MessageFrame {
  readonly isCompressed: boolean;
  readonly bytes: Buffer;
}

export class MessageFrames {
  /** Bytes of messages that are not taken. */
  private readonly chunks = new Chunks();

  constructor(private readonly maxBytes: number) {}

  get unread(): number {
    return this.chunks.length;
  }

  push(chunk: Buffer): void {
    this.chunks.push(chunk);
  }

  /** The next message, or undefined until it is complete. Throws a Refusal for a message that is too long. */
  next(): MessageFrame | undefined {
    const { chunks } = this;
    if (chunks.length < HEAD_BYTES) return undefined;
    const head = chunks.first!.length < HEAD_BYTES ? chunks.join() : chunks.first!;
    const size = head.readUInt32BE(1);
    if (size > this.maxBytes) {
      throw new Refusal("too-large", `the request has ${size} bytes; at most ${this.maxBytes} are taken`);
    }
    const end = HEAD_BYTES + size;
    if (chunks.length < end) return undefined;
    const all = chunks.join();
    chunks.reset(all.subarray(end));
    return { isCompressed: all[0] === 1, bytes: all.subarray(HEAD_BYTES, end) };
  }
}
