/**
 * The stored form of 4,096 consecutive messages of a leased log: which are acknowledged, how often the others were attempted, and
 * until when they are delayed. Features that lease messages keep one row per block; `lease-core.ts` works on the decoded form.
 *
 *     0      version: 1
 *     1      bytes of the bitmap, u16: trailing zero bytes are left out
 *     3      the bitmap: bit i % 8 of byte i / 8 is set if message i is acknowledged
 *     …      number of attempts, u16; for each: message u16, attempts u16
 *     …      number of delays, u16; for each: message u16, until epoch ms f64
 */

export const BLOCK = 4_096;
const BITMAP_BYTES = BLOCK / 8;
const VERSION = 1;
const MAX_ATTEMPTS = 0xffff;

export interface Block {
  readonly acked: Uint8Array;
  /** By index in the block: ended leases without an acknowledgement. */
  readonly attempts: Map<number, number>;
  /** By index in the block: not to be leased before this time. */
  readonly delays: Map<number, number>;
}

export function newBlock(): Block {
  return { acked: new Uint8Array(BITMAP_BYTES), attempts: new Map(), delays: new Map() };
}

export function encodeBlock({ acked, attempts, delays }: Block): Uint8Array {
  let length = acked.length;
  while (length > 0 && acked[length - 1] === 0) length--;
  const bytes = new Uint8Array(1 + 2 + length + 2 + 4 * attempts.size + 2 + 10 * delays.size);
  const view = new DataView(bytes.buffer);
  bytes[0] = VERSION;
  view.setUint16(1, length);
  bytes.set(acked.subarray(0, length), 3);
  let at = 3 + length;
  view.setUint16(at, attempts.size);
  at += 2;
  for (const [index, count] of attempts) {
    view.setUint16(at, index);
    view.setUint16(at + 2, Math.min(count, MAX_ATTEMPTS));
    at += 4;
  }
  view.setUint16(at, delays.size);
  at += 2;
  for (const [index, untilMs] of delays) {
    view.setUint16(at, index);
    view.setFloat64(at + 2, untilMs);
    at += 10;
  }
  return bytes;
}

export function decodeBlock(bytes: Uint8Array): Block {
  if (bytes[0] !== VERSION) throw new Error(`a block of acknowledgements has version ${bytes[0]}; known is ${VERSION}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const block = newBlock();
  const length = view.getUint16(1);
  block.acked.set(bytes.subarray(3, 3 + length));
  let at = 3 + length;
  let left = view.getUint16(at);
  for (at += 2; left > 0; left--, at += 4) block.attempts.set(view.getUint16(at), view.getUint16(at + 2));
  left = view.getUint16(at);
  for (at += 2; left > 0; left--, at += 10) block.delays.set(view.getUint16(at), view.getFloat64(at + 2));
  return block;
}
