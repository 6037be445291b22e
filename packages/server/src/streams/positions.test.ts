import type { Position } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import { type Engine, type Entity, type Head, type LoggedMessage, NO_HEAD } from "../engine/contract.ts";
import { positionAt, positionBack } from "./positions.ts";
import { type Meta, metaTable } from "./state.ts";

interface Log {
  readonly messages: LoggedMessage[];
  readonly start: Position;
  readonly meta: Meta;
}

/** Numbers by generation: `[[1, 3], [2, 5]]` is three messages of generation 1 and then two of generation 2. */
function messages(runs: readonly (readonly [generation: number, through: number])[], firstSeq = 1): LoggedMessage[] {
  const all: LoggedMessage[] = [];
  let seq = firstSeq;
  for (const [generation, through] of runs) {
    for (; seq <= through; seq++) {
      all.push({ position: { generation, seq }, payload: new Uint8Array(), at: seq * 10 });
    }
  }
  return all;
}

const META: Meta = { config: { contentType: "text/plain" }, createdAt: 0, touchedAt: 0, closed: false };

function isAfter(a: Position, b: Position): boolean {
  return a.generation > b.generation || (a.generation === b.generation && a.seq > b.seq);
}

/** An engine that holds these logs and counts the reads. */
function engineOf(logs: Readonly<Record<string, Log>>) {
  const headOf = ({ messages: all, start }: Log): Head => {
    const last = all.at(-1)?.position ?? start;
    return { ...NO_HEAD, generation: last.generation, last, start, at: all.at(-1)?.at ?? 0 };
  };
  const engine = {
    exclusive: true,
    reads: 0,
    now: () => 0,
    load: (e: Entity, keys: readonly unknown[]) => {
      const log = logs[e.id]!;
      return { rev: 1, head: headOf(log), nextGeneration: 9, rows: keys.map(() => metaTable.encode(log.meta)) };
    },
    read: (e: Entity, after: Position) => {
      engine.reads++;
      const log = logs[e.id]!;
      const floor = isAfter(log.start, after) ? log.start : after;
      const found = log.messages.find(({ position }) => isAfter(position, floor));
      return { messages: found ? [found] : [], head: headOf(log), atTail: found === undefined };
    },
  };
  return engine as typeof engine & Engine;
}

const ZERO = { generation: 0, seq: 0 };
const whole: Log = { messages: messages([[1, 1_000]]), start: ZERO, meta: META };
/** Two failovers: generations 1, 2 and 4. */
const mended: Log = {
  messages: messages([
    [1, 8],
    [2, 12],
    [4, 20],
  ]),
  start: ZERO,
  meta: META,
};
const trimmed: Log = { ...mended, start: { generation: 2, seq: 10 } };
const fork: Log = {
  messages: messages([[7, 30]], 16),
  start: { generation: 4, seq: 15 },
  meta: {
    ...META,
    origin: {
      source: "mended",
      askedSubOffset: 0,
      id: "f",
      lineage: [{ path: "mended", through: { generation: 4, seq: 15 } }],
    },
  },
};
/** Inherited messages 13 to 15, and a failover of the source lost them after the fork was made. */
const bereft: Log = {
  ...fork,
  meta: {
    ...META,
    origin: {
      ...fork.meta.origin!,
      source: "shortened",
      lineage: [{ path: "shortened", through: { generation: 2, seq: 15 } }],
    },
  },
  start: { generation: 2, seq: 15 },
};
const shortened: Log = {
  ...mended,
  messages: messages([
    [1, 8],
    [2, 12],
    [9, 40],
  ]),
};
const barren: Log = { ...bereft, messages: [] };
const empty: Log = { messages: [], start: { generation: 3, seq: 0 }, meta: META };
const logs = { whole, mended, trimmed, fork, shortened, bereft, barren, empty };

describe("the position of the last messages", () => {
  it.each<[keyof typeof logs, number, Position]>([
    ["whole", 1, { generation: 1, seq: 999 }],
    ["whole", 0, { generation: 1, seq: 1_000 }],
    ["whole", 1_000, ZERO],
    ["whole", 5_000, ZERO],
    ["mended", 1, { generation: 4, seq: 19 }],
    ["mended", 8, { generation: 2, seq: 12 }],
    ["mended", 9, { generation: 2, seq: 11 }],
    ["mended", 12, { generation: 1, seq: 8 }],
    ["trimmed", 9, { generation: 2, seq: 11 }],
    ["trimmed", 10, { generation: 2, seq: 10 }],
    ["trimmed", 15, { generation: 2, seq: 10 }],
    ["fork", 15, { generation: 4, seq: 15 }],
    ["fork", 16, { generation: 4, seq: 14 }],
    ["fork", 25, { generation: 1, seq: 5 }],
    ["bereft", 16, { generation: 2, seq: 15 }],
    ["bereft", 18, { generation: 2, seq: 12 }],
    ["barren", 2, { generation: 2, seq: 15 }],
    ["empty", 3, ZERO],
  ])("of %s, %i of them, is %o", async (path, count, position) => {
    expect(await positionBack(engineOf(logs), "p", path, count)).toEqual({ kind: "position", position });
  });
});

describe("the position of a time", () => {
  it.each<[keyof typeof logs, number, Position]>([
    ["whole", 0, ZERO],
    ["whole", 10, ZERO],
    ["whole", 11, { generation: 1, seq: 1 }],
    ["whole", 5_000, { generation: 1, seq: 499 }],
    ["whole", 10_000, { generation: 1, seq: 999 }],
    ["whole", 10_001, { generation: 1, seq: 1_000 }],
    ["mended", 90, { generation: 1, seq: 8 }],
    ["mended", 130, { generation: 2, seq: 12 }],
    ["trimmed", 50, { generation: 2, seq: 10 }],
    ["trimmed", 125, { generation: 2, seq: 12 }],
    ["fork", 95, { generation: 2, seq: 9 }],
    ["fork", 155, { generation: 4, seq: 15 }],
    ["fork", 300, { generation: 7, seq: 29 }],
    ["bereft", 120, { generation: 2, seq: 11 }],
    ["bereft", 140, { generation: 2, seq: 12 }],
    ["bereft", 165, { generation: 7, seq: 16 }],
    ["barren", 140, { generation: 2, seq: 12 }],
    ["empty", 5, ZERO],
  ])("in %s, %i ms, is %o", async (path, time, position) => {
    expect(await positionAt(engineOf(logs), "p", path, time)).toEqual({ kind: "position", position });
  });

  it("is found by halves, not by reading everything", async () => {
    const engine = engineOf(logs);
    await positionAt(engine, "p", "whole", 5_000);
    expect(engine.reads).toBeLessThanOrEqual(12);
  });
});

it("a message that is trimmed during the search makes it start again", async () => {
  const log = { ...whole, start: ZERO };
  const engine = engineOf({ log });
  const { read } = engine;
  engine.read = (e, after) => {
    if (log.start.seq === 0) log.start = { generation: 1, seq: 900 };
    return read(e, after);
  };
  expect(await positionAt(engine, "p", "log", 5_000)).toEqual({
    kind: "position",
    position: { generation: 1, seq: 900 },
  });
});

it("a topic has no positions, and what is not there has none", async () => {
  const sharded = { ...whole, meta: { ...META, config: { contentType: "text/plain", shards: 4 } } };
  const gone = { ...whole, meta: { ...META, deleted: true } };
  const engine = engineOf({ sharded, gone });
  expect(await positionBack(engine, "p", "sharded", 1)).toEqual({ kind: "sharded", shards: 4 });
  expect(await positionAt(engine, "p", "gone", 1)).toMatchObject({ kind: "gone" });
});
