/**
 * The bounds of the disk engine: memory of idle entities, space of destroyed ones, and the work that waits while the store is
 * slower than the journal. It runs on simulated ports, so that every state is visible and nothing depends on speed.
 */
import { beforeEach, describe, expect, it } from "vitest";
import { type Effect, type Engine, EngineError, entity } from "../../packages/server/src/engine/contract.ts";
import { Applier } from "../../packages/server/src/engine/disk/applier.ts";
import { type ApplyRunner, InlineRunner } from "../../packages/server/src/engine/disk/apply-runner.ts";
import type { Limits } from "../../packages/server/src/engine/disk/defaults.ts";
import type { DiskEngine } from "../../packages/server/src/engine/disk/engine.ts";
import { ExtentReader } from "../../packages/server/src/engine/disk/extent-reader.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import type { Overlay } from "../../packages/server/src/engine/disk/overlay.ts";
import type { Writing } from "../../packages/server/src/engine/disk/store.ts";
import { SimClock } from "../sim/disk/clock.ts";
import { SimDrive } from "../sim/disk/files.ts";
import { SimStore } from "../sim/disk/store.ts";

let clock: SimClock;
let store: SimStore;
beforeEach(() => {
  clock = new SimClock(1);
  store = new SimStore();
});

/** Shows readers the state of the last refresh, like the read transactions of another thread. */
class SnapshotStore extends SimStore {
  private shown = new SimStore();
  private writing = false;

  override refresh(): void {
    const shown = new SimStore();
    this.transact(() => {
      shown.transact((tx) =>
        super.scan(FIRST, LAST, (key, value) => {
          tx.put(key, value);
          return true;
        }),
      );
    });
    this.shown = shown;
  }

  override transact(change: (tx: Writing) => void): void {
    this.writing = true;
    try {
      super.transact(change);
    } finally {
      this.writing = false;
    }
  }

  override get(key: Buffer): Buffer | undefined {
    return this.writing ? super.get(key) : this.shown.get(key);
  }

  override keys(from: Buffer, to: Buffer, visit: (key: Buffer) => boolean): void {
    if (this.writing) super.keys(from, to, visit);
    else this.shown.keys(from, to, visit);
  }

  override lastKey(from: Buffer, to: Buffer): Buffer | undefined {
    return this.writing ? super.lastKey(from, to) : this.shown.lastKey(from, to);
  }
}

const FIRST = Buffer.from([0]);
const LAST = Buffer.from([255]);

async function open(limits: Partial<Limits>, hold: { closed: boolean } = { closed: false }): Promise<DiskEngine> {
  const files = new SimDrive(clock).files();
  return clock.until(
    openWith(
      {
        dir: "/d",
        world: clock,
        limits: { segmentBytes: 65_536, applyAfterMs: 5, applyWithinMs: 5, applyBytes: 10_000, ...limits },
      },
      {
        files,
        openStore: () => store,
        startApply: ({ journalDir }) =>
          gate(new InlineRunner(new Applier(store), new ExtentReader(files, journalDir)), hold),
      },
    ),
  );
}

/** A runner that waits while the gate is closed. */
function gate(runner: ApplyRunner, hold: { closed: boolean }): ApplyRunner {
  return {
    started: Promise.resolve(),
    close: () => runner.close(),
    async apply(extents, report) {
      while (hold.closed) await new Promise<void>((resolve) => clock.after(1, resolve));
      return runner.apply(extents, report);
    },
  };
}

const begin: Effect = { op: "begin", generation: 1, at: { generation: 1, seq: 0 } };
const append = (size: number): Effect => ({ op: "append", messages: [{ payload: Buffer.alloc(size, 1), at: 1 }] });
const stream = (i: number) => entity("p", "stream", `s${i}`);

async function settle(ms = 1_000): Promise<void> {
  await clock.until(new Promise<void>((resolve) => clock.after(ms, resolve)));
}

function keys(): string[] {
  const found: string[] = [];
  store.keys(FIRST, LAST, (key) => found.push(key.toString("latin1", 0, 1)) > 0);
  return found;
}

describe("memory", () => {
  it("holds few idle entities: those with cached messages, and the last ones to change", async () => {
    const engine = await open({ tailBytes: 20_000, keptStates: 10 });
    for (let i = 0; i < 300; i++) {
      const effects: Effect[] = [begin, append(500), { op: "put", table: "t", key: "k", value: Buffer.alloc(9) }];
      await clock.until(engine.commit(stream(i), { rev: 0 }, [...effects, { op: "remind", atMs: 1e15 }]));
    }
    await settle();
    const { states, renamed, reminded } = (engine as unknown as { overlay: Overlay }).overlay;
    expect(states.size).toBeGreaterThan(5);
    expect(states.size).toBeLessThan(50);
    expect([renamed.size, reminded.size]).toEqual([0, 0]);
    expect((await engine.list("p", "stream", "", "", 1_000)).ids).toHaveLength(300);
    await clock.until(engine.close());
  });
});

describe("a reader", () => {
  it("never misses a commit between the overlay and a snapshot of the store", async () => {
    store = new SnapshotStore();
    const engine = await open({ tailBytes: 0, applyAfterMs: 1, applyBytes: 1 });
    const e = stream(1);
    let rev = 0;
    for (let i = 1; i <= 30; i++) {
      const row: Effect = { op: "put", table: "t", key: "k", value: Buffer.from(String(i)) };
      ({ rev } = await done(engine, e, rev, [...(i === 1 ? [begin] : []), append(50), row]));
      await settle(clock.below(3));
      expect((await engine.read(e, { generation: 0, seq: 0 }, 1 << 20)).messages).toHaveLength(i);
      const { rows } = await engine.load(e, [{ table: "t", key: "k" }]);
      expect(Buffer.from(rows[0]!).toString()).toBe(String(i));
      expect((await engine.list("p", "stream", "", "", 5)).ids).toEqual(["s1"]);
    }
    await clock.until(engine.close());
  });
});

describe("space", () => {
  it("comes back when entities are destroyed, logs begin anew and messages are trimmed", async () => {
    const engine = await open({ tailBytes: 0 });
    const e = entity("p", "stream", "doomed");
    const many: Effect[] = Array.from({ length: 900 }, (_, i) => ({
      op: "put",
      table: "t",
      key: `${i}`,
      value: Buffer.alloc(5),
    }));
    let { rev } = await done(engine, e, 0, [begin, ...many, { op: "remind", atMs: 1e15 }]);
    for (let i = 0; i < 40; i++) ({ rev } = await done(engine, e, rev, [append(50_000)]));
    await settle();
    expect(keys().filter((kind) => kind === "l").length).toBeGreaterThan(30);

    ({ rev } = await done(engine, e, rev, [{ op: "trim", through: { generation: 1, seq: 38 }, bytes: 0 }]));
    await settle();
    expect(keys().filter((kind) => kind === "l").length).toBe(2);
    expect(
      (await engine.read(e, { generation: 0, seq: 0 }, 1 << 30)).messages.map(({ position }) => position.seq),
    ).toEqual([39, 40]);

    ({ rev } = await done(engine, e, rev, [{ op: "begin", generation: 2, at: { generation: 2, seq: 0 } }, append(10)]));
    await settle();
    expect(keys().filter((kind) => kind === "l").length).toBe(1);

    await done(engine, e, rev, [{ op: "destroy" }]);
    await settle();
    expect((await engine.list("p", "stream", "doomed", "", 10)).ids).toEqual([]);
    // Only the store's own row remains.
    expect(keys()).toEqual(["m"]);
    await clock.until(engine.close());
  });
});

async function done(
  engine: Engine,
  e: ReturnType<typeof entity>,
  rev: number,
  effects: readonly Effect[],
): Promise<{ rev: number }> {
  const result = await clock.until(engine.commit(e, { rev }, effects));
  if (result.kind !== "done") throw new Error(result.kind);
  return result;
}

describe("waiting work", () => {
  it("waits for the lag, is then refused as overloaded, and continues when the store does", async () => {
    const hold = { closed: true };
    const engine = await open({ lagBytes: 50_000, queueBytes: 30_000, batchBytes: 5_000 }, hold);
    let told = 0;
    const refused: EngineError[] = [];
    for (let i = 1_000; i < 1_200; i++) {
      engine.commit(stream(i), { rev: 0 }, [begin, append(1_000)]).then(
        () => told++,
        (fault: EngineError) => refused.push(fault),
      );
      await settle(2);
    }
    expect(engine.lagBytes).toBeGreaterThan(50_000);
    expect(engine.isBehind()).toBe(true);
    expect(engine.lagBytes).toBeLessThan(60_000);
    expect(refused.length).toBeGreaterThan(50);
    expect(refused.every((fault) => fault instanceof EngineError && fault.code === "overloaded")).toBe(true);
    expect(told + refused.length).toBeLessThan(200);

    hold.closed = false;
    await settle();
    expect(told + refused.length).toBe(200);
    expect(engine.lagBytes).toBe(0);
    expect(engine.isBehind()).toBe(false);
    const { rev } = await engine.load(stream(1_000), []);
    expect((await done(engine, stream(1_000), rev, [append(5)])).rev).toBeGreaterThan(rev);
    await clock.until(engine.close());
  });
});
