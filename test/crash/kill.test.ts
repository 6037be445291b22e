/**
 * Real processes on real disks, killed without warning, dozens of times: while they write, apply, or recover from the kill
 * before. Acknowledged messages are there, once and in order; no commit is there by half.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryDir } from "../support/disk.ts";
import { bundle, removeBundle } from "./bundle.ts";

const IS_DEEP = process.env.SLUICE_DEEP === "1";
const DIRECTORIES = IS_DEEP ? 4 : 2;
const KILLS = IS_DEEP ? 1_000 : 7;
const STREAMS = 12;

let script: string;
beforeAll(async () => {
  script = await bundle("kill-child");
});
afterAll(() => removeBundle(script));

/** The acknowledgements of one directory, over all processes that used it. */
class Promises {
  readonly done = Array<number>(STREAMS).fill(0);
  /** Ends of commits whose outcome is unknown. */
  private readonly tried = Array.from({ length: STREAMS }, () => new Set<number>());
  readonly wrong: string[] = [];
  acknowledged = 0;

  hear(line: string): void {
    const [word, stream, end] = line.split(" ");
    const i = Number(stream);
    const n = Number(end);
    if (word === "try") this.tried[i]!.add(n);
    else if (word === "done") this.keep(i, n);
    else if (word === "found") this.compare(i, n);
    else if (word === "wrong") this.wrong.push(line);
  }

  private keep(i: number, n: number): void {
    this.done[i] = n;
    this.tried[i]!.clear();
    this.acknowledged++;
  }

  private compare(i: number, n: number): void {
    if (n !== this.done[i] && !this.tried[i]!.has(n)) {
      this.wrong.push(
        `stream ${i} has ${n} messages; ${this.done[i]} were acknowledged, ${[...this.tried[i]!]} in doubt`,
      );
    }
    this.done[i] = n;
    this.tried[i]!.clear();
  }
}

function start(
  dir: string,
  mode: "write" | "check",
  promises: Promises,
): { child: ChildProcess; ready: Promise<void>; ended: Promise<void> } {
  const child = spawn(process.execPath, [script, dir, String(STREAMS), mode], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout! });
  const ready = new Promise<void>((resolve) => {
    lines.on("line", (line) => {
      promises.hear(line);
      if (line === "ready") resolve();
    });
    child.on("exit", () => resolve());
  });
  // All lines are read when both the pipe and the process have ended.
  const ended = Promise.all([
    new Promise<void>((resolve) =>
      child.on("exit", (code) => {
        if (code !== null && code !== 0) promises.wrong.push(`a child ended by itself with code ${code}`);
        resolve();
      }),
    ),
    new Promise<void>((resolve) => lines.on("close", () => resolve())),
  ]).then(() => undefined);
  return { child, ready, ended };
}

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function killAgainAndAgain(dir: string): Promise<Promises> {
  const promises = new Promises();
  for (let kill = 0; kill < KILLS && promises.wrong.length === 0; kill++) {
    const { child, ready, ended } = start(dir, "write", promises);
    // Some die before they are ready, in the middle of recovery.
    if (Math.random() < 0.15) await Promise.race([ready, wait(50 + Math.random() * 100)]);
    else {
      await ready;
      await wait(Math.random() ** 2 * 150);
    }
    child.kill("SIGKILL");
    await ended;
  }
  await start(dir, "check", promises).ended;
  return promises;
}

describe("after a kill", () => {
  it(`${DIRECTORIES * KILLS} times over, every acknowledged commit is there and none by half`, {
    timeout: 60_000 + KILLS * 5_000,
  }, async () => {
    const directories = Array.from({ length: DIRECTORIES }, temporaryDir);
    try {
      const all = await Promise.all(directories.map(({ dir }) => killAgainAndAgain(dir)));
      for (const { wrong, acknowledged } of all) {
        expect(wrong).toEqual([]);
        expect(acknowledged).toBeGreaterThan(KILLS);
      }
    } finally {
      for (const { remove } of directories) remove();
    }
  });
});
