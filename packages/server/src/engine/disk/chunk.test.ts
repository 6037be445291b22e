import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Message } from "../contract.ts";
import { chunkCount, chunkRecords, cutRun, joins, type Part, valueBytes, writeValue } from "./chunk.ts";
import { CHUNK_BYTES, MERGE_FACTOR } from "./defaults.ts";
import { readRecord, recordBytes, recordLength, writeRecord } from "./record.ts";
import { SEAL_BYTES } from "./sealed.ts";

function part(sizes: readonly number[], mark: number): Part {
  const messages = sizes.map((size, i): Message => ({ payload: Buffer.alloc(size, mark + i), at: mark + i }));
  const records = Buffer.alloc(messages.reduce((sum, message) => sum + recordBytes(message), 0));
  let at = 0;
  for (const message of messages) at = writeRecord(records, at, message);
  return { records, count: messages.length };
}

const sizes = fc.array(fc.oneof(fc.nat(40), fc.nat(3_000), fc.nat(30_000), fc.constant(100_000)), {
  minLength: 1,
  maxLength: 30,
});

describe("cutting a run into chunks", () => {
  it("keeps every message in order, and no chunk is too large unless one message is", () => {
    fc.assert(
      fc.property(fc.array(sizes, { minLength: 1, maxLength: 6 }), (parts) => {
        const made = parts.map((one, i) => part(one, i * 31));
        const count = made.reduce((sum, one) => sum + one.count, 0);
        const bytes = made.reduce((sum, { records }) => sum + records.length, 0);
        const chunks = cutRun({ generation: 1, firstSeq: 10, count, bytes, parts: made });
        let seq = 10;
        const found: Buffer[] = [];
        for (const chunk of chunks) {
          const value = writeValue(Buffer.alloc(valueBytes(chunk)), chunk).subarray(SEAL_BYTES);
          expect(chunk.firstSeq).toBe(seq);
          expect(chunk.bytes <= CHUNK_BYTES || chunkCount(value) === 1).toBe(true);
          found.push(chunkRecords(value));
          seq += chunkCount(value);
        }
        expect(seq).toBe(10 + count);
        expect(Buffer.concat(found).equals(Buffer.concat(made.map(({ records }) => records)))).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it("fills chunks well when the messages are small", () => {
    const made = Array.from({ length: 100 }, (_, i) => part(Array<number>(50).fill(100), i));
    const bytes = made.reduce((sum, { records }) => sum + records.length, 0);
    const chunks = cutRun({ generation: 1, firstSeq: 1, count: 5_000, bytes, parts: made });
    expect(chunks.length).toBe(Math.ceil(bytes / (CHUNK_BYTES - (CHUNK_BYTES % 113))));
  });
});

describe("joining the last chunk", () => {
  it("rewrites a trickle's bytes a bounded number of times", () => {
    let last = 0;
    let rewritten = 0;
    const messages = 20_000;
    for (let i = 0; i < messages; i++) {
      if (joins(last, 113)) {
        rewritten += last;
        last += 113;
      } else last = 113;
    }
    expect(rewritten / (messages * 113)).toBeLessThan(MERGE_FACTOR);
  });
});

describe("a record", () => {
  it("is not read from bytes that are none", () => {
    const { records } = part([5], 0);
    expect(recordLength(records, 0)).toBe(records.length);
    expect(recordLength(records, records.length)).toBe(0);
    expect(recordLength(records.subarray(0, records.length - 1), 0)).toBe(0);
    expect(recordLength(Buffer.alloc(40), 0)).toBe(0);
  });

  it("keeps attributes with names that objects treat specially", () => {
    const attributes = JSON.parse(`{"__proto__":"a","constructor":"b"}`) as Record<string, string>;
    const message = { payload: Buffer.from("x"), at: 1, attributes };
    const bytes = Buffer.alloc(recordBytes(message));
    writeRecord(bytes, 0, message);
    expect(JSON.stringify(readRecord(bytes, 0, bytes.length, 1, 1).attributes)).toBe(JSON.stringify(attributes));
  });
});
