/**
 * Bits that flip inside LMDB's file, read in processes of their own. Values carry checksums, so a damaged one is refused with
 * its entity and position. LMDB's own pages carry none: a damaged page may be refused, may end the process, and may rarely
 * make LMDB not find what is there; what it must never do is to give another message or row than was written.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Effect, entity } from "../../packages/server/src/engine/contract.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { bundle, removeBundle } from "./bundle.ts";
import { copyOf } from "./damaged-dir.ts";
import { expectedRow, expectedText, MESSAGES, ROWS, STREAMS } from "./pages-data.ts";

const PAGE = 4_096;
const source = temporaryDir();
let script: string;
let store: Buffer;

beforeAll(async () => {
  script = await bundle("pages-child");
  const engine = await openWith(
    { dir: source.dir, world: realWorld(), limits: { segmentBytes: 8_192 } },
    inlinePorts(),
  );
  for (let i = 0; i < STREAMS; i++) await engine.commit(entity("p", "stream", `s${i}`), { rev: 0 }, history(i));
  await engine.close();
  store = readFileSync(`${source.dir}/store.mdb`);
});

afterAll(() => {
  source.remove();
  removeBundle(script);
});

function history(i: number): Effect[] {
  const messages = Array.from({ length: MESSAGES }, (_, k) => ({ payload: Buffer.from(expectedText(i, k)), at: 1 }));
  const rows = Array.from(
    { length: ROWS },
    (_, k): Effect => ({ op: "put", table: "t", key: `k${k}`, value: Buffer.from(expectedRow(i, k)) }),
  );
  return [{ op: "begin", generation: 1, at: { generation: 1, seq: 0 } }, { op: "append", messages }, ...rows];
}

/** What a process says that reads a copy with a bit flipped in these places; "died" when it says nothing. */
async function readDamaged(places: readonly number[], bit: number): Promise<string> {
  const copy = copyOf(source.dir);
  const file = openSync(`${copy.dir}/store.mdb`, "r+");
  for (const at of places) writeSync(file, Buffer.from([store[at]! ^ (1 << bit)]), 0, 1, at);
  closeSync(file);
  const child = spawn(process.execPath, [script, copy.dir], { stdio: ["ignore", "pipe", "ignore"], timeout: 20_000 });
  let said = "";
  child.stdout.on("data", (bytes) => {
    said += bytes;
  });
  await new Promise((resolve) => child.on("close", resolve));
  copy.remove();
  return said.trim() || "died";
}

async function inParallel(jobs: (() => Promise<void>)[]): Promise<void> {
  const work = async (): Promise<void> => {
    for (let job = jobs.pop(); job !== undefined; job = jobs.pop()) await job();
  };
  await Promise.all([work(), work(), work()]);
}

/** LMDB leaves old copies of its pages behind, so a text may lie in several places. */
function placesOf(text: string): number[] {
  const places: number[] = [];
  for (let at = store.indexOf(text); at !== -1; at = store.indexOf(text, at + 1)) places.push(at + 4);
  return places;
}

/** The same places in every run. */
const spread = (count: number, limit: number): number[] =>
  Array.from({ length: count }, (_, i) => Math.floor(((i * 0.6180339887) % 1) * limit));

describe("a flipped bit in the store", () => {
  it("inside a message or a row is refused with the entity", { timeout: 120_000 }, async () => {
    const damages = [3, 17, 31, 44, 58].flatMap((i) => [
      { i, places: placesOf(expectedText(i, 30)), what: /messages from 1_\d+ on of p\/stream\/s/ },
      { i, places: placesOf(expectedRow(i, 2)), what: /row t\/k2 of p\/stream\/s/ },
    ]);
    await inParallel(
      damages.map(({ i, places, what }) => async () => {
        const said = await readDamaged(places, i % 8);
        expect(said).toMatch(/^refused data-damaged/);
        expect(said).toMatch(what);
        expect(said).toContain(`s${i} `);
      }),
    );
  });

  it("inside LMDB's pages never makes it give something else", { timeout: 120_000 }, async () => {
    const pages = store.length / PAGE - 2;
    const places = spread(30, pages).map((page, i) => (page + 2) * PAGE + ((i * 7) % 48));
    const said: string[] = [];
    await inParallel(places.map((at, i) => async () => void said.push(await readDamaged([at], i % 8))));
    expect(said.filter((line) => line.startsWith("wrong"))).toEqual([]);
    // Most flips meet something that can tell.
    expect(said.filter((line) => line.startsWith("refused")).length).toBeGreaterThan(places.length / 4);
  });
});
