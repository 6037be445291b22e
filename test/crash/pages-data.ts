/**
 * The content of the directory whose pages are damaged: streams with small and large messages and rows, some of them trimmed or
 * destroyed, so that the store has pages of every kind. A later process writes more on top.
 */
import type { Effect, Engine, Entity } from "../../packages/server/src/engine/contract.ts";
import { entity } from "../../packages/server/src/engine/contract.ts";

export const STREAMS = 60;
export const MESSAGES = 60;
export const ROWS = 10;
/** The number of streams after the later process, which destroys some and creates others. */
const LATER_STREAMS = 70;

export const expectedText = (stream: number, k: number): string =>
  `text ${k} of ${stream} ${"=".repeat((stream * k) % 400)}`;
export const expectedRow = (stream: number, k: number): string =>
  `row ${k} of ${stream}.${stream % 20 === 3 && k === 1 ? "+".repeat(12_000) : ""}`;

export const streamOf = (i: number): Entity => entity("p", "stream", `s${i}`);

function messagesOf(i: number, from: number, to: number): Effect {
  const numbers = Array.from({ length: to - from }, (_, k) => from + k);
  return { op: "append", messages: numbers.map((k) => ({ payload: Buffer.from(expectedText(i, k)), at: 1 })) };
}

function history(i: number, generation: number): Effect[] {
  const put = (k: number): Effect => ({ op: "put", table: "t", key: `k${k}`, value: Buffer.from(expectedRow(i, k)) });
  return [
    { op: "begin", generation, at: { generation, seq: 0 } },
    messagesOf(i, 0, MESSAGES),
    ...Array.from({ length: ROWS }, (_, k) => put(k)),
  ];
}

async function create(engine: Engine, i: number): Promise<void> {
  const { nextGeneration } = await engine.load(streamOf(i), []);
  await engine.commit(streamOf(i), { rev: 0 }, history(i, nextGeneration));
}

const streamsFrom = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

async function change(engine: Engine, i: number, effects: Effect[]): Promise<void> {
  const { rev } = await engine.load(streamOf(i), []);
  const { kind } = await engine.commit(streamOf(i), { rev }, effects);
  if (kind !== "done") throw new Error(kind);
}

/** The first process: twice as many streams as it leaves, so that pages were used, freed and reused. */
export async function writeFirst(engine: Engine, settle: () => Promise<void>): Promise<void> {
  for (const i of streamsFrom(0, 2 * STREAMS)) await create(engine, i);
  await settle();
  for (const i of streamsFrom(STREAMS, 2 * STREAMS)) await change(engine, i, [{ op: "destroy" }]);
  await settle();
  for (const i of streamsFrom(0, STREAMS).filter((n) => n % 7 === 0))
    await change(engine, i, [{ op: "put", table: "t", key: "k0", value: Buffer.from(expectedRow(i, 0)) }]);
  await settle();
}

/** A later process: appends, rewrites, destroys and creates, which takes free pages and frees others. */
export async function writeLater(engine: Engine): Promise<void> {
  await Promise.all(
    streamsFrom(0, STREAMS).map((i) =>
      i % 4 === 1
        ? change(engine, i, [{ op: "destroy" }])
        : change(engine, i, [
            messagesOf(i, MESSAGES, 2 * MESSAGES),
            { op: "put", table: "t", key: "k4", value: Buffer.from(expectedRow(i, 4)) },
          ]),
    ),
  );
  await Promise.all(streamsFrom(STREAMS, LATER_STREAMS).map((i) => create(engine, i)));
}

/** The difference from the written content: "lost" if something is missing, "wrong" if it differs; undefined if all is equal. */
export async function compareFirst(engine: Engine): Promise<string | undefined> {
  return compareAll(engine, streamsFrom(0, STREAMS), () => MESSAGES);
}

export async function compareLater(engine: Engine): Promise<string | undefined> {
  const streams = streamsFrom(0, LATER_STREAMS).filter((i) => i >= STREAMS || i % 4 !== 1);
  return compareAll(engine, streams, (i) => (i < STREAMS ? 2 * MESSAGES : MESSAGES));
}

async function compareAll(
  engine: Engine,
  streams: readonly number[],
  messages: (i: number) => number,
): Promise<string | undefined> {
  const listed: string[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const page = await engine.list("p", "stream", "", after, 50);
    listed.push(...page.ids);
    after = page.next;
  }
  if (listed.length !== streams.length) return `lost: ${listed.length} streams are listed`;
  for (const i of streams) {
    const difference = await compareStream(engine, i, messages(i));
    if (difference !== undefined) return difference;
  }
  return undefined;
}

async function compareStream(engine: Engine, i: number, count: number): Promise<string | undefined> {
  const { rev, head } = await engine.load(streamOf(i), []);
  if (rev === 0) return `lost: stream ${i} does not exist`;
  const { messages } = await engine.read(streamOf(i), { generation: 0, seq: 0 }, 1 << 30);
  if (messages.length !== count || head.last.seq !== count) return `lost: stream ${i} has ${messages.length} messages`;
  for (const [k, { payload }] of messages.entries()) {
    if (Buffer.from(payload).toString() !== expectedText(i, k)) return `wrong: message ${k} of stream ${i}`;
  }
  const rows = await engine.rows(streamOf(i), "t", "", 1_000);
  if (rows.length !== ROWS) return `lost: stream ${i} has ${rows.length} rows`;
  for (const [k, { value }] of rows.entries()) {
    if (Buffer.from(value).toString() !== expectedRow(i, k)) return `wrong: row ${k} of stream ${i}`;
  }
  return undefined;
}
