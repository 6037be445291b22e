/**
 * A start on a journal whose commits the store lacks, as a kill leaves it. It runs on simulated ports: a process that dies is
 * simply left, and the applier works only while the test lets it.
 */
import { beforeEach, describe, expect, it } from "vitest";
import { type Done, type Effect, type Engine, type Entity, entity } from "../../packages/server/src/engine/contract.ts";
import { Applier } from "../../packages/server/src/engine/disk/applier.ts";
import { InlineRunner } from "../../packages/server/src/engine/disk/apply-runner.ts";
import type { DiskEngine } from "../../packages/server/src/engine/disk/engine.ts";
import { ExtentReader } from "../../packages/server/src/engine/disk/extent-reader.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { SimClock } from "../sim/disk/clock.ts";
import { SimDrive } from "../sim/disk/files.ts";
import { SimStore } from "../sim/disk/store.ts";

class CountingStore extends SimStore {
  reads = 0;
  writes = 0;

  override get(key: Buffer): Buffer | undefined {
    this.reads++;
    return super.get(key);
  }

  override put(key: Buffer, value: Buffer): void {
    this.writes++;
    super.put(key, value);
  }
}

let clock: SimClock;
let drive: SimDrive;
let store: CountingStore;
let isApplying: boolean;

beforeEach(() => {
  clock = new SimClock(1);
  drive = new SimDrive(clock);
  store = new CountingStore();
  isApplying = false;
});

/** Another process on the same drive. The one before it gets no further turn of its own. */
function open(): Promise<DiskEngine> {
  clock.forget();
  const files = drive.files();
  const limits = { segmentBytes: 16_384, applyAfterMs: 5, applyWithinMs: 5 };
  return clock.until(
    openWith(
      { dir: "/d", world: clock, limits },
      {
        // The lock of a process ends with it.
        files: { ...files, lock: async () => async () => undefined },
        openStore: () => store,
        startApply: ({ journalDir }) => {
          const runner = new InlineRunner(new Applier(store), new ExtentReader(files, journalDir));
          return {
            started: runner.started,
            apply: (extents, report) =>
              isApplying ? runner.apply(extents, report) : new Promise<boolean>(() => undefined),
            close: () => runner.close(),
          };
        },
      },
    ),
  );
}

const stream = (id: string): Entity => entity("p", "stream", id);
const bytes = (text: string) => Buffer.from(text);
const put = (key: string, value: string): Effect => ({ op: "put", table: "t", key, value: bytes(value) });
const append = (...texts: string[]): Effect => ({
  op: "append",
  messages: texts.map((text) => ({ payload: bytes(text), at: 7, id: `id-${text.slice(0, 9)}` })),
});
const begin = (generation: number): Effect => ({ op: "begin", generation, at: { generation, seq: 0 } });

async function commit(engine: Engine, e: Entity, effects: readonly Effect[]): Promise<Done> {
  const { rev } = await engine.load(e, []);
  const answer = await clock.until(engine.commit(e, { rev }, effects));
  expect(answer.kind).toBe("done");
  return answer as Done;
}

/** Every effect that a commit can have, on entities that live, lived and live again. */
async function tell(engine: Engine): Promise<void> {
  await commit(engine, stream("a"), [begin(1), put("kept", "1"), put("gone", "1"), append("one", "two", "three")]);
  await commit(engine, stream("a"), [{ op: "drop", table: "t", key: "gone" }, put("kept", "2")]);
  await commit(engine, stream("a"), [
    { op: "trim", through: { generation: 1, seq: 1 }, bytes: 3 },
    append("x".repeat(20_000)),
  ]);
  await commit(engine, stream("a"), [{ op: "remind", atMs: 5 }]);
  await commit(engine, stream("anew"), [begin(1), append("old")]);
  await commit(engine, stream("anew"), [begin(2), append("new"), { op: "remind", atMs: 3 }]);
  await commit(engine, stream("again"), [begin(1), put("kept", "old"), append("old")]);
  await commit(engine, stream("again"), [{ op: "destroy" }]);
  const { nextGeneration } = await engine.load(stream("again"), []);
  await commit(engine, stream("again"), [begin(nextGeneration), append("new")]);
  await commit(engine, stream("destroyed"), [begin(nextGeneration + 1), { op: "remind", atMs: 4 }]);
  await commit(engine, stream("destroyed"), [{ op: "destroy" }]);
}

/** All that readers can see. */
async function seen(engine: Engine): Promise<unknown> {
  const { ids } = await engine.list("p", "stream", "", "", 100);
  const keys = ["kept", "gone"].map((key) => ({ table: "t", key }));
  const of = async (id: string) => {
    const { messages, head } = await engine.read(stream(id), { generation: 0, seq: 0 }, 1_000_000);
    const texts = messages.map(({ position, payload, at, id: name }) => [position, String(payload), at, name]);
    const rows = (await engine.rows(stream(id), "t", "", 100)).map(({ key, value }) => [key, String(value)]);
    return { ...(await engine.load(stream(id), keys)), texts, rows, readUnder: head };
  };
  const due = (await engine.due(0, 100)).map(({ id }) => id);
  return {
    ids,
    due,
    projects: await engine.projects("stream"),
    each: await Promise.all([...ids, "destroyed"].map(of)),
  };
}

describe("a start on commits that the store lacks", () => {
  it("shows them as they were, takes further commits onto them, and again after the next kill", async () => {
    const first = await open();
    await tell(first);
    const before = await seen(first);
    const second = await open();
    expect(await seen(second)).toEqual(before);
    const { rev } = await commit(second, stream("a"), [append("later"), put("kept", "3")]);
    await commit(second, stream("another"), [begin(9), append("its first")]);
    const after = await seen(second);
    const third = await open();
    expect(await seen(third)).toEqual(after);
    expect((await third.load(stream("a"), [])).rev).toBe(rev);
  });

  it("shows them also where the store has the beginning of an entity, and an incarnation that they destroy", async () => {
    isApplying = true;
    const first = await open();
    await commit(first, stream("a"), [begin(1), put("kept", "1"), append("one")]);
    await commit(first, stream("again"), [begin(1), put("gone", "1"), append("old"), { op: "remind", atMs: 1 }]);
    await clock.until(first.close());
    isApplying = false;
    const second = await open();
    await commit(second, stream("a"), [put("kept", "2"), append("two")]);
    await commit(second, stream("again"), [{ op: "destroy" }]);
    await commit(second, stream("again"), [begin(3), append("new")]);
    const before = await seen(second);
    expect(await seen(await open())).toEqual(before);
  });

  it("gives them to the applier, and the store has all of them at last", async () => {
    await tell(await open());
    isApplying = true;
    const second = await open();
    const before = await seen(second);
    expect(second.lagBytes).toBeGreaterThan(0);
    await clock.until(new Promise<void>((resolve) => clock.after(1_000, resolve)));
    expect(second.lagBytes).toBe(0);
    expect(await seen(second)).toEqual(before);
    await clock.until(second.close());
    expect(await seen(await open())).toEqual(before);
  });

  it("costs the store as much for many of them as for few", async () => {
    const costs: unknown[] = [];
    for (const count of [10, 1_000]) {
      [clock, store] = [new SimClock(1), new CountingStore()];
      drive = new SimDrive(clock);
      const first = await open();
      const effects = [begin(1), append("one"), put("k", "1")];
      const commits = Array.from({ length: count }, (_, i) => first.commit(stream(`s${i}`), { rev: 0 }, effects));
      await clock.until(Promise.all(commits));
      const { reads, writes } = store;
      await open();
      costs.push({ reads: store.reads - reads, writes: store.writes - writes });
    }
    expect(costs[1]).toEqual(costs[0]);
  });

  it("flushes the last of them again, because a kill may have left it in the operating system's memory alone", async () => {
    const first = await open();
    await commit(first, stream("a"), [begin(1), append("one")]);
    const { rev } = await first.load(stream("a"), []);
    void first.commit(stream("a"), { rev }, [append("unacknowledged")]);
    // The write has begun and its flush has not: no event of the drive runs before the process is gone.
    await new Promise(setImmediate);
    const isFlushed = () => drive.paths().some((path) => drive.content(path).includes("unacknowledged"));
    expect(isFlushed()).toBe(false);
    const second = await open();
    expect(JSON.stringify(await seen(second))).toContain("unacknowledged");
    expect(isFlushed()).toBe(true);
  });
});
