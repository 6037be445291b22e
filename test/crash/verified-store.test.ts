/**
 * Every store that LMDB writes passes the verifier, because refusing an undamaged store would cost a start. Random transactions,
 * with every shape of key and value, make stores that are verified after each. And changes that no single bit can make: pages
 * that only one of the verifier's checks detects.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { EngineError } from "../../packages/server/src/engine/contract.ts";
import { InlineCheck } from "../../packages/server/src/engine/disk/check-runner.ts";
import type { File } from "../../packages/server/src/engine/disk/files.ts";
import { openLmdb } from "../../packages/server/src/engine/disk/lmdb-store.ts";
import { nodeFiles } from "../../packages/server/src/engine/disk/node-files.ts";
import { openVerified } from "../../packages/server/src/engine/disk/open-store.ts";
import { SEAL_BYTES, seal } from "../../packages/server/src/engine/disk/sealed.ts";
import type { Store, Writing } from "../../packages/server/src/engine/disk/store.ts";
import { PAGE_BYTES, u16 } from "../../packages/server/src/engine/disk/verify/layout.ts";
import { verifyStore } from "../../packages/server/src/engine/disk/verify/verify-store.ts";
import { Random } from "../sim/random.ts";
import { temporaryDir } from "../support/disk.ts";
import { pageMap } from "./page-map.ts";

const SEED = Number(process.env.SLUICE_SEED ?? 11);
const STORES = 4;
const TRANSACTIONS = 40;
const META = Buffer.from("m");

/** Draws keys and values and remembers the expected content. */
class Workload {
  readonly keys: Buffer[] = [];
  private readonly known = new Set<string>();

  constructor(
    private readonly random: Random,
    private readonly likesLarge: boolean,
    private readonly likesLong: boolean,
  ) {}

  transact(tx: Writing): void {
    tx.put(META, seal(META, Buffer.alloc(SEAL_BYTES + 40)));
    const steps = this.random.between(1, this.random.pick([3, 50, 600]));
    const kind = this.random.pick(["add", "add", "remove", "remove-last", "replace"]);
    for (let i = 0; i < steps; i++) this.step(tx, this.keys.length === 0 ? "add" : kind);
  }

  private step(tx: Writing, kind: string): void {
    if (kind === "add") {
      const key = this.drawKey();
      if (this.known.has(key.toString("hex"))) return;
      this.known.add(key.toString("hex"));
      this.keys.push(key);
      tx.put(key, seal(key, this.drawValue()));
      return;
    }
    const at = kind === "remove-last" ? this.keys.length - 1 : this.random.between(0, this.keys.length - 1);
    const key = this.keys[at]!;
    if (kind === "replace") {
      tx.put(key, seal(key, this.drawValue()));
      return;
    }
    tx.remove(key);
    this.known.delete(key.toString("hex"));
    this.keys[at] = this.keys.at(-1)!;
    this.keys.pop();
  }

  private drawKey(): Buffer {
    const length = this.likesLong && this.random.between(0, 9) === 0 ? this.random.between(30, 1_900) : 25;
    const key = Buffer.alloc(length);
    for (let i = 1; i < length; i++) key[i] = this.random.between(0, 255);
    key[0] = this.random.pick([0x64, 0x68, 0x6c, 0x72]);
    return key;
  }

  private drawValue(): Buffer {
    const large = this.likesLarge ? [200, 9_000, 16_000] : [200];
    const most = this.random.between(0, 300) === 0 ? 200_000 : this.random.pick(large);
    return Buffer.alloc(SEAL_BYTES + this.random.between(0, most), 7);
  }
}

/** Compares the store with the expected content through each way of reading. */
function compare(store: Store, { keys }: Workload, random: Random): void {
  const sorted = [META, ...keys].sort(Buffer.compare);
  const scanned: Buffer[] = [];
  store.keys(Buffer.from([0]), Buffer.from([255]), (key) => scanned.push(key) > 0);
  expect(scanned.length).toBe(sorted.length);
  for (let i = 0; i < 20; i++) {
    const at = random.between(0, sorted.length - 1);
    expect(store.get(sorted[at]!)).toBeDefined();
    expect(store.lastKey(Buffer.from([0]), sorted[at]!)).toEqual(sorted[at - 1]);
    const seen: Buffer[] = [];
    store.scan(sorted[at]!, Buffer.from([255]), (key) => seen.push(key) < 3);
    expect(seen).toEqual(sorted.slice(at, at + 3));
  }
}

const rowsIn = async (path: string): Promise<number | undefined> => {
  const found = await verifyStore(nodeFiles, path, (damage) => {
    throw damage;
  });
  if (found !== undefined) expect(found.lostPages).toBe(0);
  return found?.rows;
};

async function writingBetweenReads(path: string, write: () => void): Promise<File> {
  const file = await nodeFiles.open(path, "read");
  return {
    size: () => file.size(),
    async read(into, at) {
      if (at > 2 * PAGE_BYTES) write();
      return file.read(into, at);
    },
    write: (bytes, at) => file.write(bytes, at),
    sync: () => file.sync(),
    close: () => file.close(),
  };
}

describe("a store that LMDB wrote", () => {
  it(`passes, whatever was put and removed (seed ${SEED})`, { timeout: 120_000 }, async () => {
    const random = new Random(SEED);
    for (let i = 0; i < STORES; i++) {
      const { dir, remove } = temporaryDir();
      const path = `${dir}/store.mdb`;
      const work = new Workload(random, i % 2 === 0, i > 1);
      let store: Store = openLmdb(path);
      for (let k = 0; k < TRANSACTIONS; k++) {
        store.transact((tx) => work.transact(tx));
        store.refresh();
        expect(await rowsIn(path)).toBe(work.keys.length + 1);
        if (k % 5 === 4) compare(store, work, random);
        if (k % 15 !== 14) continue;
        await store.close();
        // Either the start checks the leaves, or the guard does at the first access.
        const startBytes = random.pick([0, 1 << 30]);
        store = await openVerified(nodeFiles, { path, wasUsed: true, wasDamaged: false, startBytes });
        expect(store.unchecked?.proven.hasLeavesChecked).toBe(startBytes > 0);
      }
      await store.close();
      remove();
    }
  });

  it(`passes step by step while it is written to (seed ${SEED})`, { timeout: 120_000 }, async () => {
    const random = new Random(SEED);
    const { dir, remove } = temporaryDir();
    const path = `${dir}/store.mdb`;
    const work = new Workload(random, true, false);
    const store = openLmdb(path);
    for (let k = 0; k < 30; k++) store.transact((tx) => work.transact(tx));
    // After the metas, a transaction precedes each read, so that freed pages are reused within a step.
    const write = () => store.transact((tx) => work.transact(tx));
    const check = new InlineCheck({ ...nodeFiles, open: (at) => writingBetweenReads(at, write) }, path);
    let from: Uint8Array = Buffer.from([0]);
    let ends = 0;
    for (let k = 0; k < 60 && ends < 2; k++) {
      const release = store.pin();
      const found = await check.step(from, 400_000).finally(release);
      expect(found).toMatchObject({ kind: "checked" });
      const { next } = found as { next?: Uint8Array };
      if (next === undefined) ends++;
      from = next ?? Buffer.from([0]);
    }
    expect(ends).toBe(2);
    await store.close();
    remove();
  });

  it("is empty before the first transaction, and passes after it", async () => {
    const { dir, remove } = temporaryDir();
    const path = `${dir}/store.mdb`;
    expect(await rowsIn(path)).toBeUndefined();
    const store = openLmdb(path);
    expect(await rowsIn(path)).toBe(0);
    store.transact((tx) => tx.put(META, seal(META, Buffer.alloc(SEAL_BYTES + 40))));
    expect(await rowsIn(path)).toBe(1);
    await store.close();
    remove();
  });
});

/** The place of the i-th node's start. */
const placeOf = (i: number) => 24 + 2 * i;
const UPPER_AT = 22;

/** A store of several leaves, with one page changed behind LMDB's back. */
async function changed(kind: "branches" | "leaves", change: (page: Buffer) => void): Promise<string> {
  const { dir, remove } = temporaryDir();
  const path = `${dir}/store.mdb`;
  const store = openLmdb(path);
  store.transact((tx) => {
    tx.put(META, seal(META, Buffer.alloc(SEAL_BYTES + 40)));
    for (let i = 0; i < 2_000; i++) {
      const key = Buffer.from(`r${String(i).padStart(8, "0")}`);
      tx.put(key, seal(key, Buffer.alloc(SEAL_BYTES + 60, i)));
    }
  });
  await store.close();
  try {
    await rowsIn(path);
    const number = (await pageMap(nodeFiles, path))[kind].at(-1)!;
    const bytes = readFileSync(path);
    change(bytes.subarray(number * PAGE_BYTES, (number + 1) * PAGE_BYTES));
    writeFileSync(path, bytes);
    return await rowsIn(path).then(
      () => "nothing",
      (damage: EngineError) => damage.explanation,
    );
  } finally {
    remove();
  }
}

function swapPlaces(page: Buffer, i: number, k: number): void {
  const [a, b] = [u16(page, placeOf(i)), u16(page, placeOf(k))];
  page.writeUInt16LE(b, placeOf(i));
  page.writeUInt16LE(a, placeOf(k));
}

describe("a page that was changed is refused", () => {
  it("when two keys of a leaf have changed places", async () => {
    expect(await changed("leaves", (page) => swapPlaces(page, 3, 4))).toContain("has a key out of order");
  });

  it("when two separators of a branch have changed places", async () => {
    expect(await changed("branches", (page) => swapPlaces(page, 1, 2))).toContain("out of order");
  });

  it("when a separator sorts after the first key of its child, or before the last one of the child before", async () => {
    const move = (by: number) => (page: Buffer) => {
      const node = 24 + u16(page, placeOf(1));
      page[node + 8 + u16(page, node + 6) - 1]! += by;
    };
    expect(await changed("branches", move(1))).toContain("before the separator of its page");
    expect(await changed("branches", move(-2))).toContain("behind the separator of the next page");
  });

  it("when there is a gap between its free room and its nodes", async () => {
    const lower = (page: Buffer) => page.writeUInt16LE(u16(page, UPPER_AT) - 2, UPPER_AT);
    expect(await changed("leaves", lower)).toContain("has a page whose nodes do not fill it");
    expect(await changed("branches", lower)).toContain("has a page whose nodes do not fill it");
  });

  it("when a separator is shorter than its node", async () => {
    const message = await changed("branches", (page) => {
      const node = 24 + u16(page, placeOf(1));
      page.writeUInt16LE(u16(page, node + 6) - 2, node + 6);
    });
    expect(message).toContain("has a page whose nodes do not fill it");
  });
});

describe("the layout of LMDB's pages", () => {
  it("is that of one version of lmdb, which the package names exactly", () => {
    const { dependencies } = JSON.parse(readFileSync("packages/server/package.json", "utf8"));
    const { version } = JSON.parse(readFileSync("node_modules/lmdb/package.json", "utf8"));
    expect(dependencies.lmdb).toBe(version);
  });

  it("is reported when another version of LMDB wrote the store", async () => {
    const { dir, remove } = temporaryDir();
    const path = `${dir}/store.mdb`;
    const store = openLmdb(path);
    store.transact((tx) => tx.put(META, seal(META, Buffer.alloc(SEAL_BYTES + 40))));
    await store.close();
    const bytes = readFileSync(path);
    for (const page of [0, 1]) bytes.writeUInt32LE(3, page * PAGE_BYTES + 24 + 4);
    writeFileSync(path, bytes);
    await expect(rowsIn(path)).rejects.toThrow(/has pages of LMDB's layout 3; this program knows layout 2/);
    remove();
  });
});
