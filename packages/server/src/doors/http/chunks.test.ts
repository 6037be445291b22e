import { expect, it } from "vitest";
import { Chunks } from "./chunks.ts";

it.each([1, 3, 1_000])("bytes that arrive in chunks of %i bytes are held in few buffers, and are the same", (size) => {
  const sent = Buffer.from(Array.from({ length: 20_000 }, (_, i) => i % 251));
  const chunks = new Chunks();
  let most = 0;
  for (let at = 0; at < sent.length; at += size) {
    chunks.push(sent.subarray(at, at + size));
    most = Math.max(most, chunks.count);
  }
  expect(most).toBeLessThan(1_100);
  expect(chunks.length).toBe(sent.length);
  expect(chunks.join().equals(sent)).toBe(true);
  expect(chunks.count).toBe(1);
});

it("without a chunk there are no bytes, and no buffer", () => {
  const chunks = new Chunks();
  expect(chunks.join()).toEqual(Buffer.alloc(0));
  chunks.push(Buffer.alloc(10));
  chunks.reset(chunks.join().subarray(10));
  expect([chunks.length, chunks.count]).toEqual([0, 0]);
});
