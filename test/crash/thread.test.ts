/**
 * The disk engine as a server runs it, with the apply worker in its thread. Readers move between the tail, the overlay and LMDB
 * while writers write, and always see every message once and in order.
 */
import { readdirSync, readFileSync } from "node:fs";
import { getPriority } from "node:os";
import { describe, expect, it } from "vitest";
import { type Engine, type Entity, entity } from "../../packages/server/src/engine/contract.ts";
import type { DiskEngine } from "../../packages/server/src/engine/disk/engine.ts";
import { openDisk } from "../../packages/server/src/engine/disk/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { temporaryDir } from "../support/disk.ts";

const COMMITS = 120;
const PER_COMMIT = 25;
const limits = {
  segmentBytes: 1 << 20,
  applyBytes: 1 << 16,
  applyAfterMs: 2,
  applyWithinMs: 2,
  tailBytes: 1 << 17,
  lagBytes: 1 << 21,
};

async function write(engine: Engine, e: Entity): Promise<void> {
  let rev = 0;
  for (let i = 0; i < COMMITS; i++) {
    const messages = Array.from({ length: PER_COMMIT }, (_, k) => ({
      payload: Buffer.from(`${e.id}:${i * PER_COMMIT + k + 1}:`.padEnd((i * k) % 700, ".")),
      at: i,
    }));
    const result = await engine.commit(e, { rev }, [
      ...(rev === 0 ? [{ op: "begin", generation: 1, at: { generation: 1, seq: 0 } } as const] : []),
      { op: "append", messages },
      { op: "put", table: "t", key: "total", value: Buffer.from(String((i + 1) * PER_COMMIT)) },
    ]);
    if (result.kind !== "done") throw new Error(result.kind);
    rev = result.rev;
  }
}

/** Reads from the start to the end again and again until the writer has finished; returns the number of messages. */
async function readAlong(engine: Engine, e: Entity): Promise<number> {
  let met = 0;
  for (let after = 0; ; ) {
    const { head, rows } = await engine.load(e, [{ table: "t", key: "total" }]);
    const total = Buffer.from(rows[0] ?? "0").toString();
    if (Number(total) !== head.last.seq) throw new Error(`the row says ${total}, the log ends at ${head.last.seq}`);
    const page = await engine.read(e, { generation: 1, seq: after }, 20_000);
    for (const { position, payload } of page.messages) {
      const start = `${e.id}:${++after}:`;
      // Not `expect`, which would take longer than all else for so many messages.
      if (position.seq !== after || Buffer.from(payload).toString("latin1", 0, start.length) !== start)
        throw new Error(`${e.id} has ${Buffer.from(payload)} as ${position.seq} where ${after} should be`);
    }
    met += page.messages.length;
    if (after === COMMITS * PER_COMMIT) return met;
    // Sometimes from far back, so that the store is read as well.
    if (page.atTail && Math.random() < 0.1) after = Math.floor(Math.random() * after);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

/** The niceness of each thread of this process. */
function threads(): number[] {
  return readdirSync("/proc/self/task").map((thread) => {
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]);
  });
}

describe("the disk engine with its apply thread", () => {
  it("gives that thread a lower priority than all others", async () => {
    const { dir, remove } = temporaryDir();
    const usual = getPriority();
    const givingWay = () => threads().filter((nice) => nice === usual + 7).length;
    const engine = await openDisk({ dir, world: realWorld(), limits: { ...limits, applyNice: 7 } });
    // It runs before the first commit, because later the process may lack the descriptors to start it.
    expect(givingWay()).toBe(1);
    await write(engine, entity("p", "stream", "s"));
    await engine.read(entity("p", "stream", "s"), { generation: 1, seq: 0 }, 1_000);
    expect(givingWay()).toBe(1);
    expect(getPriority()).toBe(usual);
    await engine.close();
    expect(givingWay()).toBe(0);
    remove();
  });

  it("shows readers every message once and in order while it is written and applied", { timeout: 90_000 }, async () => {
    const { dir, remove } = temporaryDir();
    const engine = await openDisk({ dir, world: realWorld(), limits });
    const streams = Array.from({ length: 4 }, (_, i) => entity("p", "stream", `s${i}`));
    const met = await Promise.all(streams.flatMap((e) => [write(engine, e).then(() => 0), readAlong(engine, e)]));
    expect(Math.max(...met)).toBeGreaterThanOrEqual(COMMITS * PER_COMMIT);
    await engine.close();
    const again = await openDisk({ dir, world: realWorld(), limits });
    for (const e of streams) expect(await readAlong(again, e)).toBe(COMMITS * PER_COMMIT);
    await again.close();
    remove();
  });

  it.each([0, 1 << 30])(
    "checks an earlier process's store on another thread while it writes (%i bytes of leaves at the start)",
    { timeout: 90_000 },
    async (startBytes) => {
      const { dir, remove } = temporaryDir();
      const [first, second] = [entity("p", "stream", "first"), entity("p", "stream", "second")];
      const engine = await openDisk({ dir, world: realWorld(), limits });
      await write(engine, first);
      await engine.close();
      const told: string[] = [];
      const info = (what: string) => told.push(what);
      const again = await openDisk({ dir, world: realWorld(), limits: { ...limits, startBytes }, info });
      const check = (again as DiskEngine).check!;
      await Promise.all([write(again, second), readAlong(again, second), readAlong(again, first), check.ended]);
      expect(again.health()).toBeUndefined();
      expect(told.at(-1)).toContain("all of it is whole");
      // At least half of the first stream, whose end may not be in the store yet.
      expect(check.meter.bytes).toBeGreaterThan((COMMITS * PER_COMMIT * 350) / 2);
      // Without the guard it continues as before.
      await write(again, entity("p", "stream", "third"));
      expect(await readAlong(again, first)).toBe(COMMITS * PER_COMMIT);
      await again.close();
      remove();
    },
  );
});
