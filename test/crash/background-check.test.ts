/**
 * Damage outside of a start's budget: the background check finds it, and names the place that a refused start names. From then on
 * the engine refuses every write and every read that could be wrong. The next start reads everything before it opens the store.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EngineError } from "../../packages/server/src/engine/contract.ts";
import { InlineCheck } from "../../packages/server/src/engine/disk/check-runner.ts";
import type { DiskEngine } from "../../packages/server/src/engine/disk/engine.ts";
import type { Files } from "../../packages/server/src/engine/disk/files.ts";
import { nodeFiles } from "../../packages/server/src/engine/disk/node-files.ts";
import { type DiskPorts, openWith } from "../../packages/server/src/engine/disk/open.ts";
import { PAGE_BYTES } from "../../packages/server/src/engine/disk/verify/layout.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { copyOf, flip } from "./damaged-dir.ts";
import { systemFault } from "./failing-files.ts";
import { type PageMap, pageMap } from "./page-map.ts";
import { compareFirst, expectedText, streamOf, writeFirst } from "./pages-data.ts";

const source = temporaryDir();
let store: Buffer;
let pages: PageMap;

beforeAll(async () => {
  const engine = await openWith({ dir: source.dir, world: realWorld(), limits: { applyAfterMs: 1 } }, inlinePorts());
  await writeFirst(engine, async () => {
    while (engine.lagBytes > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  });
  await engine.close();
  store = readFileSync(`${source.dir}/store.mdb`);
  pages = await pageMap(nodeFiles, `${source.dir}/store.mdb`);
}, 60_000);

afterAll(() => source.remove());

interface Life {
  readonly dir: string;
  readonly engine: DiskEngine;
  readonly told: string[];
}

/** Damages a copy, opens it, waits for the end of its check, and passes it to the test. */
async function afterCheck(
  damage: (storePath: string) => void,
  look: (life: Life) => Promise<void>,
  options: { startBytes?: number; ports?: { readonly startCheck: DiskPorts["startCheck"] } } = {},
): Promise<void> {
  const { dir, remove } = copyOf(source.dir);
  damage(`${dir}/store.mdb`);
  const told: string[] = [];
  const tell = (what: string, details: object): void => {
    told.push(`${what} ${JSON.stringify(details)}`);
  };
  const limits = { startBytes: options.startBytes ?? 1 << 30 };
  const ports = { ...inlinePorts(), ...options.ports };
  const engine = await openWith({ dir, world: realWorld(), limits, warn: tell, info: tell }, ports);
  try {
    await engine.check?.ended;
    await look({ dir, engine, told });
  } finally {
    await engine.close();
    remove();
  }
}

const append = async (engine: DiskEngine): Promise<unknown> => {
  const { rev } = engine.load(streamOf(1), []);
  return engine.commit(streamOf(1), { rev }, [{ op: "append", messages: [{ payload: Buffer.from("x"), at: 1 }] }]).then(
    ({ kind }) => kind,
    (fault: EngineError) => fault.code,
  );
};

async function shown(engine: DiskEngine): Promise<Map<string, number>> {
  const values = new Map<string, number>();
  for (const metric of engine.metrics()) {
    if (metric.kind === "histogram") continue;
    await metric.read((value, labels) => values.set(metric.name + (labels?.result ?? ""), value));
  }
  return values;
}

describe("the background check", () => {
  it("passes an undamaged store, and reports that in the log and in metrics", async () => {
    await afterCheck(
      () => undefined,
      async ({ engine, told }) => {
        expect(engine.health()).toBeUndefined();
        expect(await compareFirst(engine)).toBeUndefined();
        expect(told[0]).toMatch(/has begun .*bytesPerSecond/);
        expect(told[1]).toMatch(/all of it is whole .*rows/);
        const values = await shown(engine);
        expect(values.get("sluice_store_checkpassed")).toBe(1);
        expect(values.get("sluice_store_checkrunning")).toBe(0);
        expect(values.get("sluice_store_check_progress")).toBe(1);
        expect(values.get("sluice_store_checked_bytes_total")).toBeGreaterThan(pages.overflows.length * PAGE_BYTES);
      },
    );
  });

  it("stops writes when a message is damaged, and names its place; other messages stay readable", async () => {
    const byte = pages.placeOf(store, expectedText(17, 30));
    const page = Math.floor(byte / PAGE_BYTES);
    expect(pages.overflows).toContain(page);
    await afterCheck(
      (path) => flip(path, byte, 3),
      async ({ dir, engine, told }) => {
        const refusal = engine.health()!;
        expect(refusal.code).toBe("data-damaged");
        expect(refusal.explanation).toMatch(new RegExp(`store\\.mdb at byte \\d+ \\(page ${page}\\): messages from`));
        expect(refusal.explanation).toContain("p/stream/s17 ");
        // Clients of other projects see the refusal too.
        expect(refusal.message).toMatch(
          new RegExp(`^The store is damaged: store\\.mdb at byte \\d+ \\(page ${page}\\)\\.$`),
        );
        expect(told.at(-1)).toContain("writes are refused");
        expect(await append(engine)).toBe("data-damaged");
        expect(engine.read(streamOf(18), { generation: 0, seq: 0 }, 1 << 20).messages.length).toBeGreaterThan(0);
        expect(() => engine.read(streamOf(17), { generation: 0, seq: 0 }, 1 << 20)).toThrow(/s17/);
        expect((await shown(engine)).get("sluice_store_checkdamaged")).toBe(1);
        await engine.close();
        // The same error, now before the store is opened.
        await expect(openWith({ dir, world: realWorld() }, inlinePorts())).rejects.toMatchObject({
          explanation: refusal.explanation,
        });
      },
    );
  });

  it("stops reads as well when a page that leads to others is damaged", async () => {
    const byte = pages.leaves.at(-1)! * PAGE_BYTES + 20;
    await afterCheck(
      (path) => flip(path, byte, 1),
      async ({ engine }) => {
        expect(engine.health()?.explanation).toMatch(new RegExp(`\\(page ${pages.leaves.at(-1)}\\)`));
        expect(() => engine.load(streamOf(1), [])).toThrow(engine.health()!.message);
      },
      { startBytes: 0 },
    );
  });

  it("allows a start after the damage found by an earlier process was repaired", async () => {
    const byte = pages.placeOf(store, expectedText(17, 30));
    await afterCheck(
      (path) => flip(path, byte, 3),
      async ({ dir, engine }) => {
        await engine.close();
        expect(readFileSync(`${dir}/damage`, "utf8")).toBe(`${engine.health()!.explanation}\n`);
        writeFileSync(`${dir}/store.mdb`, store);
        const again = await openWith({ dir, world: realWorld() }, inlinePorts());
        expect(existsSync(`${dir}/damage`)).toBe(false);
        expect(await append(again)).toBe("done");
        await again.close();
      },
    );
  });

  it("stops writes when the store cannot be read", async () => {
    const files: Files = { ...nodeFiles, open: () => Promise.reject(systemFault("EIO")) };
    await afterCheck(
      () => undefined,
      async ({ dir, engine }) => {
        expect(engine.health()?.code).toBe("storage-failed");
        expect(engine.health()?.explanation).toContain("EIO");
        expect(await append(engine)).toBe("storage-failed");
        expect(existsSync(`${dir}/damage`)).toBe(false);
      },
      { ports: { startCheck: ({ path }) => new InlineCheck(files, path) } },
    );
  });
});

describe("before the check has reached a page", () => {
  it("LMDB frees no pages through a damaged head, so that no other value is lost", async () => {
    const page = Math.floor(pages.placeOf(store, expectedText(17, 30)) / PAGE_BYTES);
    const flipHead = (path: string): void => flip(path, page * PAGE_BYTES + 20, 1);
    await afterCheck(
      flipHead,
      async ({ dir, engine }) => {
        const { rev } = engine.load(streamOf(17), []);
        await engine.commit(streamOf(17), { rev }, [{ op: "destroy" }]);
        while (engine.health() === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
        expect(engine.health()?.explanation).toMatch(new RegExp(`\\(page ${page}\\): the head of a value's pages`));
        await engine.close();
        // With that one bit restored, the whole store is undamaged.
        flipHead(`${dir}/store.mdb`);
        const again = await openWith({ dir, world: realWorld() }, inlinePorts());
        expect(again.load(streamOf(17), []).rev).toBe(0);
        expect(again.load(streamOf(18), []).rev).toBeGreaterThan(0);
        await again.close();
      },
      { ports: { startCheck: undefined } },
    );
  });
});
