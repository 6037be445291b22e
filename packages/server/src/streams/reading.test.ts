/** Others write between the two looks that a page takes: at the stream's row, and at its log. */
import { expect, it } from "vitest";
import { type Engine, type Head, NO_HEAD } from "../engine/contract.ts";
import { readPage, type StreamPage } from "./reading.ts";
import { type Meta, metaTable } from "./state.ts";

interface Moment {
  readonly last: number;
  readonly closed: boolean;
}

const at = (seq: number) => ({ generation: 1, seq });
const headAt = (last: number): Head => ({ ...NO_HEAD, generation: 1, last: at(last), start: at(0) });

/** An engine that tells each look of another moment. */
function engineOf(moments: readonly Moment[]): Engine {
  const coming = [...moments];
  const look = () => (coming.length > 1 ? coming.shift()! : coming[0]!);
  return {
    exclusive: false,
    now: () => 0,
    async load() {
      const { last, closed } = look();
      const meta: Meta = { config: { contentType: "text/plain" }, createdAt: 0, touchedAt: 0, closed };
      return { rev: 1, head: headAt(last), nextGeneration: 2, rows: [metaTable.encode(meta)] };
    },
    async read(_e: unknown, after: { seq: number }) {
      const { last } = look();
      const messages = Array.from({ length: last - after.seq }, (_, i) => {
        return { payload: new Uint8Array(1), at: 0, position: at(after.seq + i + 1) };
      });
      return { head: headAt(last), messages, atTail: true };
    },
  } as unknown as Engine;
}

async function pageOf(...moments: readonly Moment[]): Promise<[number, boolean, boolean]> {
  const page = (await readPage(engineOf(moments), "p", "s", at(0), 1_000)) as StreamPage;
  return [page.messages.length, page.atTail, page.meta.closed];
}

it("who is told of a message that closed its stream is told that it did", async () => {
  expect(await pageOf({ last: 0, closed: false }, { last: 1, closed: true })).toEqual([1, true, true]);
});

it("a message after which more has come did not close the stream, whatever came later did", async () => {
  const moments = [1, 2, 3].map((last) => ({ last, closed: false }));
  expect(await pageOf(...moments, { last: 4, closed: true })).toEqual([2, true, false]);
});

it("a stream that stays as it is needs no third look", async () => {
  expect(await pageOf({ last: 2, closed: true }, { last: 2, closed: true }, { last: 9, closed: false })).toEqual([
    2,
    true,
    true,
  ]);
});
