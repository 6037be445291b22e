/**
 * `sluice doctor` on directories after a crash, a bit flip or a foreign write: it reports the place, and repairs only a torn
 * tail.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createServer } from "@sluice/server";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { change, copyOf, flip, framesIn, openAt, outcome, segmentPaths, writeMessages } from "../crash/damaged-dir.ts";
import { temporaryDir } from "../support/disk.ts";
import { dirForTest, sluice } from "../support/sluice-process.ts";
import { manualWorld } from "../support/world.ts";

const MESSAGES = 12;
/** The directory after a crash, before any commit was applied to the store and after all were. */
let fresh: string;
let settled: string;

beforeAll(async () => {
  const source = temporaryDir();
  const engine = await openAt(source.dir, manualWorld(3), { segmentBytes: 65_536, applyAfterMs: 1e9 });
  await writeMessages(engine, 1, MESSAGES);
  const crashed = copyOf(source.dir);
  await engine.close();
  fresh = crashed.dir;
  settled = source.dir;
  return () => {
    crashed.remove();
    source.remove();
  };
});

function damaged(start: string, damage: (dir: string) => void): string {
  const copy = copyOf(start);
  onTestFinished(copy.remove);
  damage(copy.dir);
  return copy.dir;
}

const journal = (dir: string): string => segmentPaths(dir)[0]!;

/** Every file of the directory except those that opening alone changes. */
function contentOf(dir: string): Record<string, string> {
  const names = readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((name) => !/lock/.test(name));
  const files = names.filter((name) => statSync(join(dir, name)).isFile()).sort();
  return Object.fromEntries(
    files.map((name) => [
      name,
      createHash("sha256")
        .update(readFileSync(join(dir, name)))
        .digest("hex"),
    ]),
  );
}

function tear(dir: string): number {
  const last = framesIn(journal(dir)).at(-1)!;
  change(journal(dir), (bytes) => bytes.fill(0, last + 40, last + 400));
  return last;
}

describe("a directory that was opened twice", () => {
  it("is healthy, though its newest segment is a recycled file", async () => {
    const dir = damaged(fresh, () => {});
    for (let life = 0; life < 3; life++) {
      await (await openAt(dir, manualWorld(4 + life), { segmentBytes: 65_536 })).close();
      const { code, stdout } = await sluice(["doctor", dir]);
      expect(stdout).not.toContain("damaged");
      expect(code).toBe(0);
    }
  });
});

describe("a directory after a crash", () => {
  it("is healthy, and doctor reports how much the next start will apply to the store", async () => {
    const dir = damaged(fresh, () => {});
    const before = contentOf(dir);
    const { code, stdout } = await sluice(["doctor", dir]);
    expect(stdout).toContain(`${MESSAGES} frames, every checksum right; ${MESSAGES} commits not in the store yet`);
    expect(stdout).not.toMatch(/bad|note/);
    expect(code).toBe(0);
    expect(contentOf(dir)).toEqual(before);
  });

  it("with a torn tail is reported, and --repair truncates that tail and nothing else", async () => {
    const dir = damaged(fresh, tear);
    const last = framesIn(journal(dir)).at(-1)!;
    const before = contentOf(dir);
    const looked = await sluice(["doctor", dir]);
    expect(looked.code).toBe(0);
    expect(looked.stdout).toMatch(
      new RegExp(
        `^note +journal +an unfinished frame at the end, .*\\.seg at byte ${last} \\(\\d+ bytes\\): probably`,
        "m",
      ),
    );
    expect(contentOf(dir)).toEqual(before);

    const bytes = readFileSync(journal(dir));
    const repaired = await sluice(["doctor", dir, "--repair"]);
    expect(repaired.code).toBe(0);
    expect(repaired.stdout).toContain("cut the unfinished frame");
    const cut = readFileSync(journal(dir));
    expect(cut.length).toBe(bytes.length);
    expect(cut.subarray(0, last).equals(bytes.subarray(0, last))).toBe(true);
    expect(cut.subarray(last).every((byte) => byte === 0)).toBe(true);
    const { [journalName(dir)]: _, ...others } = contentOf(dir);
    const { [journalName(dir)]: __, ...othersBefore } = before;
    expect(others).toEqual(othersBefore);

    expect((await sluice(["doctor", dir])).stdout).not.toMatch(/note|bad/);
    expect(await outcome(dir)).toBe(MESSAGES - 1);
  });

  it("whose file ends in the middle of a frame has a torn tail too", async () => {
    const dir = damaged(fresh, (at) => {
      const last = framesIn(journal(at)).at(-1)!;
      writeFileSync(journal(at), readFileSync(journal(at)).subarray(0, last + 20));
    });
    expect((await sluice(["doctor", dir])).stdout).toContain("unfinished frame");
    await sluice(["doctor", dir, "--repair"]);
    expect((await sluice(["doctor", dir])).stdout).not.toMatch(/note|bad/);
    expect(await outcome(dir)).toBe(MESSAGES - 1);
  });
});

function journalName(dir: string): string {
  return journal(dir).slice(dir.length + 1);
}

describe("damage", () => {
  it.each([
    [
      "in an earlier frame",
      () => fresh,
      (dir: string) => flip(journal(dir), framesIn(journal(dir))[3]! + 40),
      /journal .*at byte \d+/,
    ],
    ["in a header of the journal", () => fresh, (dir: string) => flip(journal(dir), 20), /journal .*at byte 0/],
    [
      "in the format",
      () => fresh,
      (dir: string) => writeFileSync(`${dir}/format`, "Sluice data directory, format 9\n"),
      /format .*format 9.*format 1/,
    ],
    ["of a missing format", () => settled, (dir: string) => rmSync(`${dir}/format`), /format .*is missing/],
    ["in a row of the store", () => settled, spoilRow, /store .*damaged/],
    ["in the pages of the store", () => settled, spoilPages, /store .*damaged/],
  ])("%s is reported with its place, and --repair does not touch it", async (_, start, damage, says) => {
    const dir = damaged(start(), damage);
    const before = contentOf(dir);
    for (const args of [
      ["doctor", dir],
      ["doctor", dir, "--repair"],
    ]) {
      const { code, stdout, stderr } = await sluice(args);
      expect(stdout).toMatch(new RegExp(`^bad +${says.source}`, "m"));
      expect(stderr).toMatch(/^sluice: .* is damaged/);
      expect(code).toBe(1);
      expect(contentOf(dir)).toEqual(before);
    }
  });
});

describe("damage to journal frames that the store already holds,", () => {
  it.each([
    ["in the middle of the journal", 3, 40],
    ["in the head of a frame", 3, 1],
    ["in its last frame", -2, 40],
  ])("%s, is reported as harmless, and a start passes over it", async (_, frame, at) => {
    const dir = damaged(settled, (into) => {
      const frames = framesIn(journal(into));
      flip(journal(into), frames.at(frame)! + at);
      // An idle journal confirms its last commit with an empty frame; without that frame, the commit is the end.
      if (frame < 0) change(journal(into), (bytes) => bytes.fill(0, frames.at(-1)!));
    });
    const before = contentOf(dir);
    const { code, stdout, stderr } = await sluice(["doctor", dir, "--repair"]);
    expect(stdout).toMatch(/^bad +journal +damaged: .*\.seg.*; the store has what was there$/m);
    expect(stdout).not.toMatch(/every checksum right; all/);
    expect(stderr).toMatch(/is damaged; nothing is lost/);
    expect(code).toBe(1);
    expect(contentOf(dir)).toEqual(before);
    expect(await outcome(dir)).toBe(MESSAGES);
  });

  it("is not reported in front of a later life, which began behind an unfinished frame", async () => {
    const dir = damaged(fresh, tear);
    const engine = await openAt(dir, manualWorld(4), { segmentBytes: 65_536, applyAfterMs: 1e9 });
    await writeMessages(engine, MESSAGES, MESSAGES + 2);
    await engine.close();
    const { code, stdout } = await sluice(["doctor", dir]);
    expect(stdout).not.toMatch(/^(bad|note)/m);
    expect(code).toBe(0);
  });
});

describe("a start that passes over the end of the journal", () => {
  it("logs the place and the size once", async () => {
    const dir = damaged(fresh, tear);
    const last = framesIn(journal(dir)).at(-1)!;
    const path = journal(dir);
    const warnings: object[] = [];
    const logger = {
      info() {},
      error() {},
      warn: (fields: object, message: string) => warnings.push({ ...fields, message }),
    };
    for (let life = 0; life < 2; life++) {
      const server = await createServer({ port: 0, data: dir, log: { logger } });
      await server.close();
    }
    expect(warnings).toEqual([
      { segment: path, at: last, bytes: expect.any(Number), message: expect.stringMatching(/passed over/) },
    ]);
  });
});

/** The text of a message is stored unchanged, so this finds and flips it. */
function spoilRow(dir: string): void {
  change(`${dir}/store.mdb`, (bytes) => {
    const at = bytes.indexOf("message 5 ");
    expect(at).toBeGreaterThan(0);
    for (let found = at; found !== -1; found = bytes.indexOf("message 5 ", found + 1)) bytes[found]! ^= 1;
  });
}

/** Overwrites every page but the first two, which say where the others are. */
function spoilPages(dir: string): void {
  change(`${dir}/store.mdb`, (bytes) => bytes.fill(0xa5, 2 * 16_384));
}

describe("a directory that doctor must not open", () => {
  it("is left alone when a server uses it", async () => {
    const dir = join(dirForTest(), "data");
    const server = await createServer({ port: 0, data: dir, log: false });
    onTestFinished(() => server.close());
    const { code, stdout, stderr } = await sluice(["doctor", dir, "--repair"]);
    expect([code, stdout]).toEqual([5, ""]);
    expect(stderr).toContain(`in use by process ${process.pid}`);
    expect((await fetch(`${server.url}/ready`)).status).toBe(200);
  });

  it("is left unchanged when it holds something else", async () => {
    const dir = dirForTest();
    mkdirSync(join(dir, "photos"));
    expect(await sluice(["doctor", dir, "--repair"])).toMatchObject({ code: 3, stdout: "" });
    expect(readdirSync(dir)).toEqual(["photos"]);
  });
});
