/**
 * Flipped bits and torn tails, in every kind of file. Opening cuts unacknowledged commits and refuses all other damage with its
 * place; no read is ever wrong. Damage inside LMDB's pages is in damaged-pages.test.ts.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Engine, EngineError } from "../../packages/server/src/engine/contract.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { type ManualWorld, manualWorld } from "../support/world.ts";
import { change, copyOf, flip, framesIn, openAt, outcome, SMALL, segmentPaths, writeMessages } from "./damaged-dir.ts";

const IS_DEEP = process.env.SLUICE_DEEP === "1";
const MESSAGES = 12;

/** A running engine with twelve frames that only the journal has, and copies of its directory from two moments. */
let world: ManualWorld;
let engine: Engine;
let unsealed: ReturnType<typeof copyOf>;
let sealed: ReturnType<typeof copyOf>;
const source = temporaryDir();

beforeAll(async () => {
  world = manualWorld(3);
  engine = await openAt(source.dir, world, { segmentBytes: 8_192, applyAfterMs: 1e9 });
  await writeMessages(engine, 1, MESSAGES);
  unsealed = copyOf(source.dir);
  world.advance(200);
  await new Promise((resolve) => setTimeout(resolve, 200));
  sealed = copyOf(source.dir);
});

afterAll(async () => {
  await engine.close();
  for (const { remove } of [source, unsealed, sealed]) remove();
});

/** Damages a copy and opens it. */
async function opened(start: { readonly dir: string }, damage: (dir: string) => void): Promise<number | EngineError> {
  const copy = copyOf(start.dir);
  try {
    damage(copy.dir);
    return await outcome(copy.dir);
  } finally {
    copy.remove();
  }
}

function expectDamage(result: number | EngineError, ...parts: (string | RegExp)[]): void {
  expect(result).toBeInstanceOf(EngineError);
  expect((result as EngineError).code).toBe("data-damaged");
  for (const part of parts) expect((result as EngineError).explanation).toMatch(part);
}

const journal = (dir: string): string => segmentPaths(dir)[0]!;

describe("the tail of the journal", () => {
  it("is accepted whole without a seal and with one", async () => {
    expect(framesIn(journal(unsealed.dir))).toHaveLength(MESSAGES);
    expect(framesIn(journal(sealed.dir))).toHaveLength(MESSAGES + 1);
    expect(await opened(unsealed, () => undefined)).toBe(MESSAGES);
    expect(await opened(sealed, () => undefined)).toBe(MESSAGES);
  });

  it("is cut where the last batch is torn, at any byte", async () => {
    const last = framesIn(journal(unsealed.dir)).at(-1)!;
    const end = last + 32 + readFileSync(journal(unsealed.dir)).readUInt32LE(last + 4);
    for (let at = last; at < end; at += IS_DEEP ? 1 : 5) {
      const found = await opened(unsealed, (dir) => change(journal(dir), (bytes) => bytes.fill(0, at, end)));
      const untouched = readFileSync(journal(unsealed.dir))
        .subarray(at, end)
        .every((byte) => byte === 0);
      expect(found, `torn at ${at - last}`).toBe(untouched ? MESSAGES : MESSAGES - 1);
    }
  });

  it("is cut where the last batch is torn at its front, or holds other bytes", async () => {
    const last = framesIn(journal(unsealed.dir)).at(-1)!;
    for (const [from, to] of [
      [0, 8],
      [8, 32],
      [32, 100],
      [0, 100],
    ] as const) {
      for (const fill of [0, 0xff, 0x4a]) {
        const found = await opened(unsealed, (dir) =>
          change(journal(dir), (bytes) => bytes.fill(fill, last + from, last + to)),
        );
        expect(found).toBe(MESSAGES - 1);
      }
    }
  });

  it("is reported when it is cut, even if the header of the frame is damaged", async () => {
    const last = framesIn(journal(unsealed.dir)).at(-1)!;
    for (const [from, to] of [
      [0, 8],
      [8, 16],
      [20, 24],
      [32, 100],
    ] as const) {
      const copy = copyOf(unsealed.dir);
      const segment = journal(copy.dir);
      change(segment, (bytes) => bytes.fill(0x4b, last + from, last + to));
      const told: object[] = [];
      const warn = (_: string, details: object) => told.push(details);
      await (await openWith({ dir: copy.dir, world: manualWorld(7), limits: SMALL, warn }, inlinePorts())).close();
      expect(told).toMatchObject([{ segment, at: last }]);
      copy.remove();
    }
  });

  it("is cut where the file itself ends early", async () => {
    const last = framesIn(journal(unsealed.dir)).at(-1)!;
    for (const size of [last, last + 1, last + 31, last + 32, last + 60]) {
      const found = await opened(unsealed, (dir) =>
        writeFileSync(journal(dir), readFileSync(journal(dir)).subarray(0, size)),
      );
      expect(found).toBe(MESSAGES - 1);
    }
  });

  it("takes new commits after a cut, and a cut commit never comes back", async () => {
    const copy = copyOf(unsealed.dir);
    const last = framesIn(journal(copy.dir)).at(-1)!;
    change(journal(copy.dir), (bytes) => bytes.fill(0xff, last + 40, last + 60));
    const again = await openAt(copy.dir);
    await writeMessages(again, MESSAGES, MESSAGES + 3);
    const crashed = copyOf(copy.dir);
    await again.close();
    expect(await outcome(crashed.dir)).toBe(MESSAGES + 3);
    expect(await outcome(copy.dir)).toBe(MESSAGES + 3);
    copy.remove();
    crashed.remove();
  });
});

describe("a flipped bit", () => {
  it("in any byte of a segment's header is refused with the file", async () => {
    for (let at = 0; at < 64; at += 1) {
      expectDamage(await opened(unsealed, (dir) => flip(journal(dir), at, at % 8)), /0000000000000001\.seg at byte 0/);
    }
  });

  it("anywhere in an earlier frame is refused with the file and the byte", async () => {
    const [, , third, fourth] = framesIn(journal(unsealed.dir)) as [number, number, number, number];
    const end = third + 32 + readFileSync(journal(unsealed.dir)).readUInt32LE(third + 4);
    for (let at = third; at < end; at += 5) {
      const result = await opened(unsealed, (dir) => flip(journal(dir), at, at % 8));
      expectDamage(result, `0000000000000001.seg at byte ${third}:`, `follows at byte ${fourth} `);
    }
  });

  it("in the last batch is refused with the bit, because no torn write looks like that", async () => {
    const last = framesIn(journal(unsealed.dir)).at(-1)!;
    const end = last + 32 + readFileSync(journal(unsealed.dir)).readUInt32LE(last + 4);
    for (let at = last; at < end; at++) {
      for (const bit of at < last + 32 && IS_DEEP ? [0, 1, 2, 3, 4, 5, 6, 7] : [at % 8]) {
        const result = await opened(unsealed, (dir) => flip(journal(dir), at, bit));
        expectDamage(result, `0000000000000001.seg at byte ${last}: bit ${bit} of byte ${at} is not what was written`);
      }
    }
  });

  it("in the last batch is refused once it was sealed", async () => {
    const last = framesIn(journal(sealed.dir)).at(-2)!;
    for (const at of [0, 4, 9, 17, 21, 29, 32, 60, 90]) {
      expectDamage(await opened(sealed, (dir) => flip(journal(dir), last + at)), `at byte ${last}:`);
    }
  });

  it("in the seal costs nothing", async () => {
    const seal = framesIn(journal(sealed.dir)).at(-1)!;
    for (let at = 0; at < 32; at++) expect(await opened(sealed, (dir) => flip(journal(dir), seal + at))).toBe(MESSAGES);
  });

  it("in the format file is refused with its name", async () => {
    const { length } = readFileSync(`${unsealed.dir}/format`);
    for (let at = 0; at < length; at++) {
      for (const bit of [0, 3]) expectDamage(await opened(unsealed, (dir) => flip(`${dir}/format`, at, bit)), /format/);
    }
  });
});

describe("missing and foreign files", () => {
  it("a journal whose first commits are gone is refused", async () => {
    const found = await opened(unsealed, (dir) => {
      const [first, second] = framesIn(journal(dir)) as [number, number];
      change(journal(dir), (bytes) => bytes.fill(0, first, second));
    });
    expectDamage(found, /byte 64/);
  });

  it("a directory of another format is refused with both versions", async () => {
    const found = await opened(unsealed, (dir) => writeFileSync(`${dir}/format`, "Sluice data directory, format 2\n"));
    expectDamage(found, /format 2/, /format 1/);
  });

  it("data without its format file is refused", async () => {
    const found = await opened(unsealed, (dir) => rmSync(`${dir}/format`));
    expectDamage(found, /format is missing/);
  });

  it("a frame of an earlier use of the file is not taken for one of this use", async () => {
    const copy = copyOf(unsealed.dir);
    const old = readFileSync(journal(copy.dir));
    // Another process writes over the same place; the old frames behind its own are whole.
    const again = await openAt(copy.dir);
    await writeMessages(again, MESSAGES + 1, MESSAGES + 2);
    const crashed = copyOf(copy.dir);
    await again.close();
    const newest = segmentPaths(crashed.dir).at(-1)!;
    const end = framesIn(newest).at(-1)! + 512;
    change(newest, (bytes) => old.copy(bytes, end, 64));
    expect(await outcome(crashed.dir)).toBe(MESSAGES + 2);
    copy.remove();
    crashed.remove();
  });

  it("a foreign file in place of the lock does not keep the owner out", async () => {
    expect(await opened(unsealed, (dir) => writeFileSync(`${dir}/lock.sock`, "junk"))).toBe(MESSAGES);
  });
});
