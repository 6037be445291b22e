/**
 * A WebSocket as the code behind it sees it: bytes and back-pressure like every sink, and the messages of its client. A door makes
 * one per connection; features that talk both ways use it.
 *
 * Invariants: `write` takes whole frames, because their bytes are the same for every client and are made once. Messages come in
 * order, one at a time. The door bounds those that wait.
 */
import type { Sink } from "./sink.ts";

export interface Socket extends Sink {
  /** Calls the listener with every text message of the client, each after the one before is done. It must not reject. */
  onText(listener: (text: string) => Promise<void>): void;
}

const TEXT = 0x81;
const SHORT = 126;
const LONG = 65_536;

/**
 * A text frame around the parts of a message, as RFC 6455 lays it out: unmasked, because it is from a server. A part that is text
 * must be ASCII: writing such a part here costs less than an encoder does.
 */
export function textFrame(parts: readonly (Uint8Array | string)[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += part.length;
  const headerBytes = length < SHORT ? 2 : length < LONG ? 4 : 10;
  const frame = new Uint8Array(headerBytes + length);
  frame[0] = TEXT;
  frame[1] = length < SHORT ? length : length < LONG ? SHORT : SHORT + 1;
  const view = new DataView(frame.buffer);
  if (headerBytes === 4) view.setUint16(2, length);
  else if (headerBytes === 10) view.setBigUint64(2, BigInt(length));
  let at = headerBytes;
  for (const part of parts) {
    if (typeof part === "string") writeAscii(part, frame, at);
    else frame.set(part, at);
    at += part.length;
  }
  return frame;
}

function writeAscii(text: string, into: Uint8Array, at: number): void {
  for (let i = 0; i < text.length; i++) into[at + i] = text.charCodeAt(i);
}
