/**
 * Damage that the start did not look for: the check in the background finds it, with the place that a refused start names. From
 * then on nothing is written, and nothing is read that could be wrong. The next start reads everything before it opens the store.
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

/** Opens a copy after this was done to it, waits for the end of its check, and hands it over. */
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

describe("the check in the background", () => {
  it("finds a whole store whole, and says so in the log and in metrics", async () => {
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

  it("refuses writes when a message is damaged, with its place; other messages are still read", async () => {
    const byte = pages.placeOf(store, expectedText(17, 30));
    const page = Math.floor(byte / PAGE_BYTES);
    expect(pages.overflows).toContain(page);
    await afterCheck(
      (path) => flip(path, byte, 3),
      async ({ dir, engine, told }) => {
        const refusal = engine.health()!;
        expect(refusal.code).toBe("data-damaged");
        expect(refusal.message).toMatch(new RegExp(`store\\.mdb at byte \\d+ \\(page ${page}\\): messages from`));
        expect(refusal.message).toContain("p/stream/s17 ");
        expect(told.at(-1)).toContain("writes are refused");
        expect(await append(engine)).toBe("data-damaged");
        expect(engine.read(streamOf(18), { generation: 0, seq: 0 }, 1 << 20).messages.length).toBeGreaterThan(0);
        expect(() => engine.read(streamOf(17), { generation: 0, seq: 0 }, 1 << 20)).toThrow(/s17/);
        expect((await shown(engine)).get("sluice_store_checkdamaged")).toBe(1);
        await engine.close();
        // The same refusal, now before anything is opened.
        await expect(openWith({ dir, world: realWorld() }, inlinePorts())).rejects.toThrow(refusal.message);
      },
    );
  });

  it("refuses reads as well when a page is damaged that others are found through", async () => {
    const byte = pages.leaves.at(-1)! * PAGE_BYTES + 20;
    await afterCheck(
      (path) => flip(path, byte, 1),
      async ({ engine }) => {
        expect(engine.health()?.message).toMatch(new RegExp(`\\(page ${pages.leaves.at(-1)}\\)`));
        expect(() => engine.load(streamOf(1), [])).toThrow(engine.health()!.message);
      },
      { startBytes: 0 },
    );
  });

  it("lets a start go on that finds the damage of an earlier life mended", async () => {
    const byte = pages.placeOf(store, expectedText(17, 30));
    await afterCheck(
      (path) => flip(path, byte, 3),
      async ({ dir, engine }) => {
        await engine.close();
        expect(readFileSync(`${dir}/damage`, "utf8")).toBe(`${engine.health()!.message}\n`);
        writeFileSync(`${dir}/store.mdb`, store);
        const again = await openWith({ dir, world: realWorld() }, inlinePorts());
        expect(existsSync(`${dir}/damage`)).toBe(false);
        expect(await append(again)).toBe("done");
        await again.close();
      },
    );
  });

  it("refuses writes when the store cannot be read", async () => {
    const files: Files = { ...nodeFiles, open: () => Promise.reject(systemFault("EIO")) };
    await afterCheck(
      () => undefined,
      async ({ dir, engine }) => {
        expect(engine.health()?.code).toBe("storage-failed");
        expect(engine.health()?.message).toContain("EIO");
        expect(await append(engine)).toBe("storage-failed");
        expect(existsSync(`${dir}/damage`)).toBe(false);
      },
      { ports: { startCheck: ({ path }) => new InlineCheck(files, path) } },
    );
  });
});

describe("before the check has come to a page", () => {
  it("LMDB frees no pages by a head that is damaged, so that nothing else is harmed", async () => {
    const page = Math.floor(pages.placeOf(store, expectedText(17, 30)) / PAGE_BYTES);
    const flipHead = (path: string): void => flip(path, page * PAGE_BYTES + 20, 1);
    await afterCheck(
      flipHead,
      async ({ dir, engine }) => {
        const { rev } = engine.load(streamOf(17), []);
        await engine.commit(streamOf(17), { rev }, [{ op: "destroy" }]);
        while (engine.health() === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
        expect(engine.health()?.message).toMatch(new RegExp(`\\(page ${page}\\): the head of a value's pages`));
        await engine.close();
        // With that one bit as it was, all of the store is found whole.
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
