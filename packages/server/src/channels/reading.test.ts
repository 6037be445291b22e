import { expect, it } from "vitest";
import { type Engine, entity, type Head, NO_HEAD } from "../engine/contract.ts";
import { readPage } from "./reading.ts";
import { CHANNEL, type Meta, metaTable } from "./state.ts";

const TTL_MS = 60_000;
const at = (seq: number) => ({ generation: 1, seq });
const headAt = (seq: number): Head => ({ ...NO_HEAD, generation: 1, last: at(seq), start: at(0) });

/** An engine whose log is read empty at `read`, and whose rows are then loaded with a head at `load`. */
function engineOf(read: Head, load: Head, meta: Partial<Meta>): Engine {
  const value = metaTable.encode({ born: 1, phase: "DELTA", ...meta } as Meta);
  return {
    exclusive: false,
    now: () => 1_000,
    read: () => ({ messages: [], head: read, atTail: true }),
    load: () => ({ rev: 1, head: load, nextGeneration: 2, rows: [value] }),
  } as unknown as Engine;
}

const channel = entity("p", CHANNEL, "c");

it("a reader at the tail is not told that the channel is over while END has come since and was not read yet", async () => {
  const engine = engineOf(headAt(1), headAt(2), { endedAt: 900 });
  const page = await readPage(engine, channel, at(1), 1_000, TTL_MS);
  expect(page).toMatchObject({ kind: "page", isOver: false, atTail: false, next: at(1) });
});

it("a reader that has read END is told that the channel is over", async () => {
  const engine = engineOf(headAt(2), headAt(2), { endedAt: 900 });
  expect(await readPage(engine, channel, at(2), 1_000, TTL_MS)).toMatchObject({ isOver: true, atTail: true });
});
