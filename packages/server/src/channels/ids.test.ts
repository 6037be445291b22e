import fc from "fast-check";
import { expect, it } from "vitest";
import { type Effect, type Head, NO_HEAD } from "../engine/contract.ts";
import { headAfter } from "../engine/head.ts";
import type { View } from "../engine/keeper.ts";
import { type Mark, trimAfterAppend } from "../engine/trimming.ts";
import { Ids } from "./ids.ts";
import type { IdSlot } from "./state.ts";

const PAYLOAD = new Uint8Array(1);

it("an id is known as long as its message is kept, whatever number of messages is kept", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 130 }), fc.integer({ min: 1, max: 7 }), (maxMessages, atATime) => {
      const slots = new Map<string, IdSlot>();
      const view = { get: (_: unknown, key: string) => slots.get(key) } as unknown as View;
      let head: Head = headAfter(NO_HEAD, [{ op: "begin", generation: 1, at: { generation: 1, seq: 0 } }]);
      let marks: readonly Mark[] = [];
      while (head.last.seq < 3 * maxMessages) {
        const ids = new Ids(view, 1, maxMessages);
        for (let i = 1; i <= atATime; i++) ids.note(`m${head.last.seq + i}`, head.last.seq + i, head.last.seq + i);
        for (const change of ids.changes()) if (change.op === "put") slots.set(change.key, change.value as IdSlot);
        const messages = Array.from({ length: atATime }, () => ({ payload: PAYLOAD, at: 0 }));
        const changes = trimAfterAppend(head, marks, { maxMessages }, messages, 0);
        head = headAfter(head, [{ op: "append", messages }]);
        for (const change of changes) {
          if (change.op === "trim") head = headAfter(head, [change as Effect]);
          if (change.op === "put") marks = change.value as readonly Mark[];
        }
        const now = new Ids(view, 1, maxMessages);
        const kept = Array.from({ length: head.last.seq - head.start.seq }, (_, i) => head.start.seq + i + 1);
        expect(kept.map((seq) => now.sequenceOf(`m${seq}`))).toEqual(kept);
      }
    }),
    { numRuns: 60 },
  );
});
