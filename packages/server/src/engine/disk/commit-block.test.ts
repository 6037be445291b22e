import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Effect, entity, type Message, NO_HEAD } from "../contract.ts";
import { headAfter } from "../head.ts";
import {
  type BlockVisitor,
  blockFixed,
  blockFlags,
  blockLength,
  blockName,
  blockNumber,
  CREATED,
  encodeCommit,
  visitBlock,
} from "./commit-block.ts";
import { readHead, readName, readReminder } from "./head-row.ts";
import { readRecord, recordLength } from "./record.ts";
import { Slab } from "./slab.ts";

const text = fc.string({ unit: "grapheme", maxLength: 20 });
const message: fc.Arbitrary<Message> = fc.record({
  payload: fc.uint8Array({ maxLength: 300 }),
  at: fc.double({ noNaN: true }),
  id: fc.option(text, { nil: undefined }),
  key: fc.option(text, { nil: undefined }),
  attributes: fc.option(fc.dictionary(text, text, { maxKeys: 4, noNullPrototype: true }), { nil: undefined }),
});
const effect: fc.Arbitrary<Effect> = fc.oneof(
  fc.record({ op: fc.constant("append" as const), messages: fc.array(message, { maxLength: 5 }) }),
  fc.record({
    op: fc.constant("put" as const),
    table: fc.constantFrom("t", "long table"),
    key: text,
    value: fc.uint8Array({ maxLength: 50 }),
  }),
  fc.record({ op: fc.constant("drop" as const), table: fc.constant("t"), key: text }),
);

/** Reads a block back into plain data. */
function read(block: Buffer): unknown[] {
  const seen: unknown[] = [];
  const visitor: BlockVisitor = {
    begin: (generation) => seen.push({ begin: generation }),
    trim: (generation, seq) => seen.push({ trim: [generation, seq] }),
    put: (suffix, value) => seen.push({ put: suffix.toString(), value: [...value] }),
    drop: (suffix) => seen.push({ drop: suffix.toString() }),
    append(generation, firstSeq, count, records) {
      let at = 0;
      for (let i = 0; i < count; i++) {
        const length = recordLength(records, at);
        seen.push(plain(readRecord(records, at, length, generation, firstSeq + i)));
        at += length;
      }
      expect(at).toBe(records.length);
    },
  };
  visitBlock(block, visitor);
  return seen;
}

const plain = ({ payload, ...rest }: Message) => ({ ...rest, payload: [...payload] });

describe("a commit as bytes", () => {
  it("decodes to every effect, message, name and head", () => {
    fc.assert(
      fc.property(fc.array(effect, { maxLength: 6 }), text, fc.option(fc.nat()), (effects, id, remindAtMs) => {
        const all: Effect[] = [{ op: "begin", generation: 7, at: { generation: 3, seq: 41 } }, ...effects];
        const head = headAfter(NO_HEAD, all);
        const e = entity("project", "stream", id);
        const outcome = { number: 2 ** 40 + 5, head, remindAtMs, flags: CREATED, before: NO_HEAD };
        const { block, appends, rows } = encodeCommit(e, all, outcome, new Slab());

        expect(blockLength(block, 0)).toBe(block.length);
        expect([blockFlags(block), blockNumber(block)]).toEqual([CREATED, outcome.number]);
        expect(readName(blockName(block), 0)).toEqual(e);
        expect(readHead(blockFixed(block), 0)).toEqual(head);
        expect(readReminder(blockFixed(block), 0)).toBe(remindAtMs);

        let seq = 41;
        const expected = all.flatMap((one): unknown[] => {
          if (one.op === "begin") return [{ begin: 7 }];
          if (one.op === "put") return [{ put: `${one.table}\0${one.key}`, value: [...one.value] }];
          if (one.op === "drop") return [{ drop: `${one.table}\0${one.key}` }];
          if (one.op !== "append") return [];
          return one.messages.map((m) => plain({ ...m, position: { generation: 7, seq: ++seq } } as Message));
        });
        expect(read(block)).toEqual(expected);
        expect(appends.reduce((sum, { count }) => sum + count, 0)).toBe(seq - 41);
        expect(rows).toHaveLength(effects.filter(({ op }) => op !== "append").length);
      }),
    );
  });
});
