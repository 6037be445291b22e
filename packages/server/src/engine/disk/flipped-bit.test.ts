import { expect, it } from "vitest";
import { findFlippedBit } from "./flipped-bit.ts";
import { FRAME_HEADER_BYTES, finishFrame, frameBytes } from "./frame.ts";

const SALT = 7;

/** A frame that ends with these bytes, in a segment of zeroes. */
function frame(...payload: number[]): Buffer {
  const bytes = Buffer.alloc(frameBytes(payload.length) + 64);
  bytes.set(payload, FRAME_HEADER_BYTES);
  finishFrame(
    bytes.subarray(0, frameBytes(payload.length)),
    payload.length,
    { firstLsn: 1, count: 1, previous: 0 },
    SALT,
  );
  return bytes;
}

const find = (bytes: Buffer) => findFlippedBit(bytes, 0, SALT, () => true);

it("a flipped bit with more of the frame behind it is found", () => {
  const bytes = frame(1, 2, 3, 0x40, 5);
  bytes[FRAME_HEADER_BYTES + 3]! ^= 0x40;
  expect(find(bytes)).toMatchObject({ at: FRAME_HEADER_BYTES + 3, bit: 6 });
});

it("a frame whose end reads zero was cut short, even if the lost bytes held a single bit", () => {
  const bytes = frame(1, 2, 3, 0x40, 0);
  bytes[FRAME_HEADER_BYTES + 3] = 0;
  expect(find(bytes)).toBeUndefined();
});
