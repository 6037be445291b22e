/** Another writer commits between the two looks that a page takes: at the stream's row, and at its log. */
import { expect, it } from "vitest";
import { type Engine, type Head, NO_HEAD } from "../engine/contract.ts";
import { readPage, type StreamPage } from "./reading.ts";
import { type Meta, metaTable } from "./state.ts";

interface Moment {
  readonly last: number;
  readonly closed: boolean;
  /** Everything up to here is trimmed. */
  readonly start?: number;
}

const at = (seq: number) => ({ generation: 1, seq });
const headOf = ({ last, start = 0 }: Moment): Head => ({ ...NO_HEAD, generation: 1, last: at(last), start: at(start) });

/** An engine that tells each look of another moment. */
function engineOf(moments: readonly Moment[]): Engine {
  const coming = [...moments];
  const look = () => (coming.length > 1 ? coming.shift()! : coming[0]!);
  return {
    exclusive: false,
    now: () => 0,
    async load() {
      const moment = look();
      const { closed } = moment;
      const meta: Meta = { config: { contentType: "text/plain" }, createdAt: 0, touchedAt: 0, closed };
      return { rev: 1, head: headOf(moment), nextGeneration: 2, rows: [metaTable.encode(meta)] };
    },
    async read(_e: unknown, after: { seq: number }) {
      const moment = look();
      const from = Math.max(after.seq, moment.start ?? 0);
      const messages = Array.from({ length: moment.last - from }, (_, i) => {
        return { payload: new Uint8Array(1), at: 0, position: at(from + i + 1) };
      });
      return { head: headOf(moment), messages, atTail: true };
    },
  } as unknown as Engine;
}

async function pageOf(...moments: readonly Moment[]): Promise<[number, boolean, boolean]> {
  const page = (await readPage(engineOf(moments), "p", "s", at(0), 1_000)) as StreamPage;
  return [page.messages.length, page.atTail, page.meta.closed];
}

it("a reader that gets the message that closed its stream learns of the close with it", async () => {
  expect(await pageOf({ last: 0, closed: false }, { last: 1, closed: true })).toEqual([1, true, true]);
});

it("a message that others follow did not close the stream, even if a later one did", async () => {
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

it("a page that was trimmed between the two looks hides no gap", async () => {
  const moments = [0, 3].map((start) => ({ last: 5, closed: false, start }));
  const outcome = await readPage(engineOf(moments), "p", "s", at(1), 1_000);
  expect(outcome).toEqual({ kind: "trimmed", earliest: at(3) });
  const page = (await readPage(engineOf(moments), "p", "s", undefined, 1_000)) as StreamPage;
  expect(page.messages.map(({ position }) => position.seq)).toEqual([4, 5]);
});
