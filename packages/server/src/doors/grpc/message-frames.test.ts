import { expect, it } from "vitest";
import { MessageFrames } from "./message-frames.ts";

const FRAMES = Buffer.from([0, 0, 0, 0, 2, 7, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9]);

it.each([1, 2, 3, 4, 5, 7, 18])("messages are the same when they come in pieces of %i bytes", (size) => {
  const frames = new MessageFrames(10);
  const found: [boolean, number[]][] = [];
  for (let at = 0; at < FRAMES.length; at += size) {
    frames.push(FRAMES.subarray(at, at + size));
    for (let next = frames.next(); next !== undefined; next = frames.next()) {
      found.push([next.isCompressed, [...next.bytes]]);
    }
  }
  expect(found).toEqual([
    [false, [7, 8]],
    [true, []],
    [false, [9]],
  ]);
  expect(frames.unread).toBe(0);
});

it("a message that is too long is refused when its length is known", () => {
  const frames = new MessageFrames(10);
  frames.push(Buffer.from([0, 0, 0, 0]));
  expect(frames.next()).toBeUndefined();
  frames.push(Buffer.from([11]));
  expect(() => frames.next()).toThrow("the request has 11 bytes; at most 10 are taken");
});
