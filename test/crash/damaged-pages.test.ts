/**
 * Flipped bits inside the store, in every kind of page. LMDB believes its pages, so each is checked before LMDB follows it: at
 * the start, or at the first access. Every flip is refused with its place, or lies where nothing depends on it. Then everything
 * reads as written, also after appends, deletions and new streams have taken free pages and freed others.
 */
import { spawn } from "node:child_process";
import { readFileSync, rmSync, truncateSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EngineError } from "../../packages/server/src/engine/contract.ts";
import { nodeFiles } from "../../packages/server/src/engine/disk/node-files.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { bundle, removeBundle } from "./bundle.ts";
import { copyOf } from "./damaged-dir.ts";
import { type PageMap, pageMap } from "./page-map.ts";
import { expectedRow, expectedText, writeFirst } from "./pages-data.ts";

const PAGE = 16_384;
/** How many times the flips of a default run. */
const TIMES = process.env.SLUICE_DEEP === "1" ? 20 : 1;
const source = temporaryDir();
let script: string;
let store: Buffer;
let pages: PageMap;

beforeAll(async () => {
  script = await bundle("pages-child");
  const limits = { segmentBytes: 1 << 16, applyAfterMs: 1 };
  const engine = await openWith({ dir: source.dir, world: realWorld(), limits }, inlinePorts());
  const settle = async (): Promise<void> => {
    while (engine.lagBytes > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  await writeFirst(engine, settle);
  await engine.close();
  // A second process has transactions of its own, and the garbage of the first is free.
  await (await openWith({ dir: source.dir, world: realWorld(), limits }, inlinePorts())).close();
  store = readFileSync(`${source.dir}/store.mdb`);
  pages = await pageMap(nodeFiles, `${source.dir}/store.mdb`);
}, 60_000);

afterAll(() => {
  flipper?.close();
  source.remove();
  removeBundle(script);
});

interface Flip {
  readonly byte: number;
  readonly bit: number;
}

/** Bytes of leaves that a start checks: all of them, or none, so that the guard checks them at the first access. */
const ALL = 1 << 30;
const NONE = 0;

/** The process that flips. All tests share it, because its start takes as long as dozens of flips; if a flip ends it, another starts. */
class Flipper {
  private output = "";
  private heard: () => void = () => undefined;
  private end: string | undefined;
  private readonly child = spawn(process.execPath, [script, source.dir], { stdio: ["pipe", "pipe", "ignore"] });

  constructor() {
    this.child.stdin.on("error", () => undefined);
    this.child.stdout.on("data", (bytes) => {
      this.output += bytes;
      if (this.output.endsWith("\n")) this.heard();
    });
    this.child.on("close", (status, signal) => {
      this.end = `died: ${signal ?? status}`;
      this.heard();
    });
  }

  get hasDied(): boolean {
    return this.end !== undefined;
  }

  /** `died` with the signal or the status, if the flip ended the process. */
  async outcome({ byte, bit }: Flip, startBytes: number, file: string): Promise<string> {
    this.output = "";
    const watchdog = setTimeout(() => this.close(), 200_000);
    const told = new Promise<void>((resolve) => {
      this.heard = resolve;
    });
    this.child.stdin.write(`${file} ${startBytes} ${byte} ${bit}\n`);
    await told;
    clearTimeout(watchdog);
    return this.end ?? this.output.trimEnd();
  }

  close(): void {
    this.child.kill("SIGKILL");
  }
}

let flipper: Flipper | undefined;

async function outcomes(flips: readonly Flip[], startBytes = ALL, file = "store.mdb"): Promise<string[]> {
  const said: string[] = [];
  for (const flip of flips) {
    if (flipper === undefined || flipper.hasDied) flipper = new Flipper();
    said.push(await flipper.outcome(flip, startBytes, file));
  }
  return said;
}

/** Numbers that are the same in every run and spread over the range. */
function spread(count: number, limit: number, start = 0.5): number[] {
  return Array.from({ length: count }, (_, i) => Math.floor(((start + i * 0.6180339887) % 1) * limit));
}

/** Flips spread over these pages; `within` chooses the byte of the page, every second one in the page's head. */
function flipsIn(numbers: readonly number[], count: number, within: (i: number) => number): Flip[] {
  expect(numbers.length).toBeGreaterThan(0);
  const chosen = spread(count * TIMES, numbers.length);
  const bits = spread(chosen.length, 8, 0.3);
  return chosen.map((page, i) => ({ byte: numbers[page]! * PAGE + within(i), bit: bits[i]! }));
}

/** Flips spread over these bytes, all bits alike. */
function flipsAt(bytes: readonly number[], count: number): Flip[] {
  const bits = spread(count * TIMES, 8, 0.3);
  return spread(bits.length, bytes.length).map((i, n) => ({ byte: bytes[i]!, bit: bits[n]! }));
}

const heads = spread(1_000, 24, 0.1);
const bodies = spread(1_000, PAGE, 0.7);
const headOrBody = (i: number): number => (i % 2 === 0 ? heads[i]! : bodies[i]!);

/** A refusal with the place of the damage. */
const PLACED = /^refused data-damaged .*(store\.mdb at byte \d+|key [0-9a-f]+)/;
/** Also a refusal by LMDB itself, which names the file alone, or ends the process. */
const NOTICED = /^(refused data-damaged .*store\.mdb|died: SIGABRT)/;

/** Each flip is refused or harmless, and at least this share is refused. */
function judge(flips: readonly Flip[], said: readonly string[], leastRefused: number, refusal = PLACED): void {
  let refused = 0;
  for (const [i, what] of said.entries()) {
    if (what === "same") continue;
    const { byte, bit } = flips[i]!;
    expect(what, `bit ${bit} of byte ${byte}`).toMatch(refusal);
    refused++;
  }
  expect(refused).toBeGreaterThanOrEqual(leastRefused * said.length);
}

describe("a flipped bit in the store", () => {
  it.each([
    // The part of both metas that is not zero.
    ["meta", () => flipsIn([0, 1], 12, (i) => (i * 37) % 168), 0.5],
    ["branch", () => flipsAt(pages.bytesOf(pages.branches), 20), 0.5],
    ["leaf", () => flipsIn(pages.leaves, 12, headOrBody), 0.5],
    ["overflow", () => flipsIn(pages.overflows, 10, headOrBody), 0.6],
    ["free list", () => flipsAt(pages.bytesOf(pages.freeList), 20), 0.5],
    ["free", () => flipsIn(pages.free, 2, headOrBody), 0],
  ] as const)("is refused or harmless in a page of kind %s", { timeout: 240_000 }, async (_, choose, least) => {
    const flips = choose();
    judge(flips, await outcomes(flips), least);
  });

  it.each([
    ["transaction", 24 + 128, 1],
    // The older meta may name another page of its transaction, because no reader follows it.
    ["root", 24 + 72 + 40, 0.9],
  ])("in the number of a %s never leads back to an older state", { timeout: 60_000 }, async (_, field, least) => {
    // Every bit of both metas, or every fifth.
    const step = TIMES > 1 ? 1 : 5;
    const bits = Array.from({ length: Math.floor(128 / step) }, (_, n) => n * step).map((i) => ({
      byte: (i >> 6) * PAGE + field + ((i >> 3) & 7),
      bit: i & 7,
    }));
    judge(bits, await outcomes(bits), least);
  });

  it("inside a message or a row is refused with the entity", { timeout: 60_000 }, async () => {
    const flips = [3, 17, 31, 44, 58].flatMap((i) => [
      { i, byte: pages.placeOf(store, expectedText(i, 30)), what: /messages from \d+_\d+ on of p\/stream\/s/ },
      { i, byte: pages.placeOf(store, expectedRow(i, 2)), what: /row t\/k2 of p\/stream\/s/ },
    ]);
    const said = await outcomes(flips.map(({ byte, i }) => ({ byte, bit: i % 8 })));
    for (const [n, { i, what }] of flips.entries()) {
      expect(said[n]).toMatch(/^refused data-damaged/);
      expect(said[n]).toMatch(what);
      expect(said[n]).toContain(`s${i} `);
    }
  });

  it("in LMDB's lock file is harmless", { timeout: 60_000 }, async () => {
    const flips = spread(4, 8_192).map((byte, i) => ({ byte, bit: i % 8 }));
    const said = await outcomes(flips, ALL, "store.mdb-lock");
    expect(said.filter((what) => what !== "same")).toEqual([]);
  });
});

describe("a flipped bit in a store whose leaves no start checks", () => {
  it("is refused before LMDB follows it, or harmless", { timeout: 240_000 }, async () => {
    const flips = [
      ...flipsIn([0, 1], 5, (i) => (i * 41) % 168),
      ...flipsAt(pages.bytesOf(pages.branches), 5),
      ...flipsIn(pages.leaves, 6, headOrBody),
      ...flipsIn(pages.overflows, 4, headOrBody),
    ];
    judge(flips, await outcomes(flips, NONE), 0.3);
  });

  it("in the free list is harmless, or refused at the latest when LMDB meets a page of another type", {
    timeout: 240_000,
  }, async () => {
    const flips = flipsAt(pages.bytesOf(pages.freeList), 8);
    judge(flips, await outcomes(flips, NONE), 0.1, NOTICED);
  });
});

async function refusal(damage: (path: string) => void): Promise<string> {
  const copy = copyOf(source.dir);
  damage(`${copy.dir}/store.mdb`);
  const opened = await openWith({ dir: copy.dir, world: realWorld() }, inlinePorts()).catch((fault: unknown) => fault);
  copy.remove();
  expect(opened).toBeInstanceOf(EngineError);
  expect((opened as EngineError).code).toBe("data-damaged");
  return (opened as EngineError).explanation;
}

describe("a store that was cut or lost", () => {
  it("is refused wherever it ends", async () => {
    // The last pages may be free, and LMDB may leave free pages unwritten.
    const size = pages.lastUsed * PAGE;
    for (const bytes of [1, 100, PAGE, 2 * PAGE - 1, 2 * PAGE, ...spread(12, size).map((n) => n + PAGE - 1)]) {
      expect(await refusal((path) => truncateSync(path, bytes)), `cut at ${bytes}`).toMatch(
        /store\.mdb at byte \d+ .*(ends|not in the file)/,
      );
    }
  });

  it("is refused when it is missing, because the journal proves that there was one", async () => {
    expect(await refusal((path) => truncateSync(path, 0))).toMatch(/store\.mdb is missing or empty/);
    expect(await refusal((path) => rmSync(path))).toMatch(/store\.mdb is missing or empty/);
  });
});
