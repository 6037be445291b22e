/**
 * Flips bits in copies of a directory, one after the other. It opens, reads, writes and checks each copy, opens it again, and
 * prints the outcome as a line: `same`, `refused <code> <message>`, or any other text for a failure. The background check comes
 * after all reads and writes, so that until then only the guard protects LMDB. It is a process of its own, because LMDB may crash
 * on a damaged page.
 *
 * Argument: the directory. From standard input: lines of `<file> <bytes of leaves that a start checks> <byte> <bit>`.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Engine, EngineError } from "../../packages/server/src/engine/contract.ts";
import { InlineCheck } from "../../packages/server/src/engine/disk/check-runner.ts";
import { nodeFiles } from "../../packages/server/src/engine/disk/node-files.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { inlinePorts } from "../support/disk.ts";
import { copyOf } from "./damaged-dir.ts";
import { compareFirst, compareLater, writeLater } from "./pages-data.ts";

const [dir] = process.argv.slice(2) as [string];

interface Flip {
  readonly file: string;
  readonly startBytes: number;
  readonly byte: number;
  readonly bit: number;
}

async function live(
  at: string,
  startBytes: number,
  run: (engine: Engine) => Promise<string | undefined>,
): Promise<string | undefined> {
  const limits = { startBytes, segmentBytes: 1 << 16, applyAfterMs: 1 };
  let letCheck = (): void => undefined;
  const mayCheck = new Promise<void>((resolve) => {
    letCheck = resolve;
  });
  const startCheck = ({ path }: { path: string }) => {
    const check = new InlineCheck(nodeFiles, path);
    const step = (from: Uint8Array, maxBytes: number) => mayCheck.then(() => check.step(from, maxBytes));
    return { startAfterMs: 0, step, close: () => check.close() };
  };
  const engine = await openWith({ dir: at, world: realWorld(), limits }, { ...inlinePorts(), startCheck });
  try {
    const difference = await run(engine);
    while (engine.lagBytes > 0 && engine.health() === undefined) await new Promise((done) => setTimeout(done, 1));
    letCheck();
    await engine.check?.ended;
    const refusal = engine.health();
    if (refusal !== undefined) throw refusal;
    return difference;
  } finally {
    letCheck();
    await engine.close();
  }
}

async function flipAndLive(at: string, { file, startBytes, byte, bit }: Flip): Promise<string> {
  // A copy has no lock file; that of an earlier process may hold any bytes.
  const bytes = existsSync(join(at, file)) ? readFileSync(join(at, file)) : Buffer.alloc(8_192, 0x5a);
  bytes[byte]! ^= 1 << bit;
  writeFileSync(join(at, file), bytes);
  const first = await live(at, startBytes, async (engine) => {
    const difference = await compareFirst(engine);
    if (difference === undefined) await writeLater(engine);
    return difference && `first ${difference}`;
  });
  // The second opening shows what the first one freed, reused or overwrote.
  return first ?? (await live(at, startBytes, compareLater)) ?? "same";
}

async function outcomeOf(flip: Flip): Promise<string> {
  const copy = copyOf(dir);
  try {
    return await flipAndLive(copy.dir, flip);
  } catch (fault) {
    if (fault instanceof EngineError) return `refused ${fault.code} ${fault.explanation}`;
    return `fault ${(fault as Error).stack?.replaceAll("\n", " | ")}`;
  } finally {
    copy.remove();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [file, startBytes, byte, bit] = line.split(" ") as [string, string, string, string];
  const flip = { file, startBytes: Number(startBytes), byte: Number(byte), bit: Number(bit) };
  process.stdout.write(`${await outcomeOf(flip)}\n`);
}
process.exit(0);
