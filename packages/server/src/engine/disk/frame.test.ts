import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeFrame,
  decodeSegmentHeader,
  encodeSegmentHeader,
  FRAME_HEADER_BYTES,
  findFrame,
  finishFrame,
  frameBytes,
} from "./frame.ts";

function frame(payload: Uint8Array, salt: number, firstLsn = 5, count = 1): Buffer {
  const bytes = Buffer.alloc(frameBytes(payload.length), 0xaa);
  bytes.set(payload, FRAME_HEADER_BYTES);
  finishFrame(bytes, payload.length, { firstLsn, count, previous: 99 }, salt);
  return bytes;
}

const salt = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const payload = fc.uint8Array({ maxLength: 200 });

describe("a frame", () => {
  it("is found at its place and decodes to its payload", () => {
    fc.assert(
      fc.property(payload, salt, fc.nat(5), (body, key, before) => {
        const bytes = Buffer.concat([Buffer.alloc(before * 8, 0x4a), frame(body, key), Buffer.alloc(64)]);
        expect(findFrame(bytes, 0, key)).toBe(before * 8);
        const found = decodeFrame(bytes, before * 8, key)!;
        expect(bytes.subarray(found.start, found.end)).toEqual(Buffer.from(body));
        expect([found.firstLsn, found.count, found.previous]).toEqual([5, 1, 99]);
        expect(found.next % 8).toBe(0);
      }),
    );
  });

  it("with any bit flipped is invalid", () => {
    fc.assert(
      fc.property(payload, salt, fc.nat(), fc.nat(7), (body, key, at, bit) => {
        const bytes = frame(body, key);
        bytes[at % (FRAME_HEADER_BYTES + body.length)]! ^= 1 << bit;
        expect(decodeFrame(bytes, 0, key)).toBeUndefined();
      }),
    );
  });

  it("of another salt is invalid, whether it is an old frame or part of a payload", () => {
    fc.assert(
      fc.property(payload, salt, salt, (body, old, key) => {
        fc.pre(old !== key);
        const forged = frame(body, old);
        expect(decodeFrame(forged, 0, key)).toBeUndefined();
        const carrier = frame(forged, key);
        expect(findFrame(carrier, 8, key)).toBeUndefined();
      }),
    );
  });
});

describe("a segment header", () => {
  it("decodes to its fields, and with any bit flipped to nothing", () => {
    fc.assert(
      fc.property(fc.nat(), salt, fc.boolean(), fc.nat(63), fc.nat(7), (number, key, chainStart, at, bit) => {
        const bytes = encodeSegmentHeader({ number, salt: key, chainStart });
        expect(decodeSegmentHeader(bytes)).toEqual({ number, salt: key, chainStart });
        bytes[at]! ^= 1 << bit;
        expect(decodeSegmentHeader(bytes)).toBeUndefined();
      }),
    );
  });
});
