/**
 * Full, read-only and broken disks, and directories in use: the engine reports the cause, keeps every acknowledged commit, and
 * continues where it can.
 */
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Engine, EngineError } from "../../packages/server/src/engine/contract.ts";
import { type Listen, listen, lockDirectory } from "../../packages/server/src/engine/disk/lock.ts";
import { openDisk, openWith } from "../../packages/server/src/engine/disk/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { smallDisk } from "../support/small-disk.ts";
import { type ManualWorld, manualWorld } from "../support/world.ts";
import { bundle, removeBundle } from "./bundle.ts";
import { copyOf, countMessages, openAt, outcome, payload, STREAM, writeMessages } from "./damaged-dir.ts";
import { FailingFiles, systemFault } from "./failing-files.ts";

const refusal = (promise: Promise<unknown>): Promise<EngineError> =>
  promise.then(
    () => {
      throw new Error("it was not refused");
    },
    (fault: unknown) => {
      expect(fault).toBeInstanceOf(EngineError);
      return fault as EngineError;
    },
  );

type Run = (files: FailingFiles, engine: Engine, dir: string, world: ManualWorld) => Promise<void>;

async function withFiles(run: Run): Promise<void> {
  const { dir, remove } = temporaryDir();
  const files = new FailingFiles();
  const limits = { segmentBytes: 8_192 };
  const world = manualWorld(5);
  const engine = await openWith({ dir, world, limits }, inlinePorts(files));
  try {
    await run(files, engine, dir, world);
  } finally {
    files.fault = () => undefined;
    await engine.close();
    remove();
  }
}

describe("a full disk", () => {
  it("refuses commits, keeps reading, and takes commits again when there is space", async () => {
    await withFiles(async (files, engine, dir, world) => {
      await writeMessages(engine, 1, 5);
      files.fault = (operation, bytes) => (operation === "write" && bytes > 32 ? systemFault("ENOSPC") : undefined);
      for (let i = 0; i < 3; i++) expect((await refusal(writeMessages(engine, 6, 6))).code).toBe("storage-full");
      expect(engine.health()?.code).toBe("storage-full");
      // After a while one write may try again, because clients send none to a server that refuses writes.
      world.advance(5_000);
      expect(engine.health()).toBeUndefined();
      expect((await refusal(writeMessages(engine, 6, 6))).code).toBe("storage-full");
      expect(engine.health()?.code).toBe("storage-full");
      expect(await countMessages(engine)).toBe(5);
      const crashed = copyOf(dir);
      expect(await outcome(crashed.dir)).toBe(5);
      crashed.remove();

      files.fault = () => undefined;
      await writeMessages(engine, 6, 8);
      expect(engine.health()).toBeUndefined();
      expect(await countMessages(engine)).toBe(8);
      const later = copyOf(dir);
      expect(await outcome(later.dir)).toBe(8);
      later.remove();
    });
  });

  it("that cannot give a new segment refuses commits until it can", async () => {
    await withFiles(async (files, engine) => {
      files.fault = (operation, bytes) => (operation === "write" && bytes >= 4_096 ? systemFault("ENOSPC") : undefined);
      let written = 0;
      const full = await refusal(
        (async () => {
          for (;;) {
            await writeMessages(engine, written + 1, written + 1);
            written++;
          }
        })(),
      );
      expect(full.code).toBe("storage-full");
      expect(written).toBeGreaterThan(10);
      expect(await countMessages(engine)).toBe(written);
      files.fault = () => undefined;
      await writeMessages(engine, written + 1, written + 40);
      expect(await countMessages(engine)).toBe(written + 40);
    });
  });

  it("that fails only at the flush refuses that commit for good and takes the next", async () => {
    await withFiles(async (files, engine, dir) => {
      await writeMessages(engine, 1, 5);
      let faults = 1;
      files.fault = (operation) => (operation === "sync" && faults-- > 0 ? systemFault("ENOSPC") : undefined);
      expect((await refusal(writeMessages(engine, 6, 6))).code).toBe("storage-full");
      const crashed = copyOf(dir);
      expect(await outcome(crashed.dir)).toBe(5);
      crashed.remove();
      await writeMessages(engine, 6, 6);
      expect(await countMessages(engine)).toBe(6);
    });
  });

  it("whose rejected frame cannot be erased stops writing", async () => {
    await withFiles(async (files, engine, dir) => {
      await writeMessages(engine, 1, 5);
      files.fault = (operation) => (operation === "write" ? systemFault("ENOSPC") : undefined);
      expect((await refusal(writeMessages(engine, 6, 6))).code).toBe("storage-failed");
      files.fault = () => undefined;
      expect((await refusal(writeMessages(engine, 6, 6))).code).toBe("storage-failed");
      const crashed = copyOf(dir);
      expect(await outcome(crashed.dir)).toBe(5);
      crashed.remove();
    });
  });
});

describe("a shortage", () => {
  const SHORTAGES = ["EMFILE", "ENFILE", "ENOMEM", "EAGAIN"];

  it.each(SHORTAGES.flatMap((code) => (["open", "syncDir"] as const).map((operation) => [code, operation] as const)))(
    "(%s at %s) refuses commits while the journal lacks its next segment, and takes them again when it has passed",
    async (code, operation) => {
      await withFiles(async (files, engine, dir, world) => {
        files.fault = (what) => (what === operation ? systemFault(code) : undefined);
        let written = 0;
        const refused = await refusal(
          (async () => {
            for (;;) await writeMessages(engine, written + 1, ++written);
          })(),
        );
        expect(refused.code).toBe("overloaded");
        // Refused for now, and the log alone names the path.
        expect(refused.message).toMatch(new RegExp(`${code}.*retry later`));
        expect(refused.message).not.toContain(dir);
        expect(refused.explanation).toContain(dir);
        expect(engine.health()).toBe(refused);
        expect(await countMessages(engine)).toBe(--written);
        files.fault = () => undefined;
        await writeMessages(engine, written + 1, written + 100);
        expect(engine.health()).toBeUndefined();
        // The store takes its share as well, and no file stays open that no part uses.
        world.advance(5_000);
        const crashed = copyOf(dir);
        expect(await outcome(crashed.dir)).toBe(written + 100);
        crashed.remove();
      });
    },
  );

  it("of memory during a write refuses that commit for good and takes the next", async () => {
    await withFiles(async (files, engine, dir) => {
      await writeMessages(engine, 1, 5);
      files.fault = (operation, bytes) => (operation === "write" && bytes > 32 ? systemFault("ENOMEM") : undefined);
      expect((await refusal(writeMessages(engine, 6, 6))).code).toBe("overloaded");
      const crashed = copyOf(dir);
      expect(await outcome(crashed.dir)).toBe(5);
      crashed.remove();
      files.fault = () => undefined;
      await writeMessages(engine, 6, 6);
      expect(await countMessages(engine)).toBe(6);
    });
  });

  it("of memory while a refused frame is erased is waited for", async () => {
    await withFiles(async (files, engine, dir, world) => {
      await writeMessages(engine, 1, 5);
      let faults = 3;
      files.fault = (operation) => (operation === "write" && faults-- > 0 ? systemFault("ENOMEM") : undefined);
      const refused = refusal(writeMessages(engine, 6, 6));
      const timer = setInterval(() => world.advance(1_000), 1);
      expect((await refused).code).toBe("overloaded");
      clearInterval(timer);
      const crashed = copyOf(dir);
      expect(await outcome(crashed.dir)).toBe(5);
      crashed.remove();
      await writeMessages(engine, 6, 6);
    });
  });
});

describe("a broken disk", () => {
  for (const operation of ["sync", "write"] as const) {
    it(`stops the writer for good at a failed ${operation}, and reads continue`, async () => {
      await withFiles(async (files, engine, dir) => {
        await writeMessages(engine, 1, 5);
        files.fault = (what) => (what === operation ? systemFault("EIO") : undefined);
        expect((await refusal(writeMessages(engine, 6, 6))).code).toBe("storage-failed");
        // Another flush might get a false success from the kernel.
        files.fault = () => undefined;
        expect((await refusal(writeMessages(engine, 6, 6))).code).toBe("storage-failed");
        expect(engine.health()?.message).toMatch(/EIO/);
        expect(await countMessages(engine)).toBe(5);
        const crashed = copyOf(dir);
        // The commit in doubt is there wholly or not at all.
        expect([5, 6]).toContain(await outcome(crashed.dir));
        crashed.remove();
      });
    });
  }
});

describe("a really full disk", () => {
  it("refuses commits, keeps the process alive, and takes commits again when there is space", {
    timeout: 60_000,
  }, async () => {
    const disk = smallDisk(10);
    // Without the right to mount, the injected faults above are the whole test.
    if (disk === undefined) return;
    const limits = { segmentBytes: 1 << 19, applyBytes: 1 << 16, retryFullMs: 20, applyAfterMs: 5, applyWithinMs: 5 };
    const engine = await openWith({ dir: join(disk.dir, "data"), world: realWorld(), limits }, inlinePorts());
    const big = join(disk.dir, "ballast");
    try {
      await writeMessages(engine, 1, 20);
      // What is freed later holds everything that waits for the store, however far the applier is behind by then.
      writeFileSync(big, Buffer.alloc(6 << 20));
      let written = 20;
      const error = await refusal(
        (async () => {
          for (;;) {
            await writeLarge(engine, written + 1);
            written++;
          }
        })(),
      );
      expect(error.code, error.message).toBe("storage-full");
      const { head } = await engine.load(STREAM, []);
      expect(head.last.seq).toBe(written);
      rmSync(big);
      await eventually(() => writeLarge(engine, written + 1));
      await eventually(async () => expect(engine.health()).toBeUndefined());
      await engine.close();
      const again = await openWith({ dir: join(disk.dir, "data"), world: realWorld(), limits }, inlinePorts());
      expect((await again.load(STREAM, [])).head.last.seq).toBe(written + 1);
      await again.close();
    } finally {
      disk.remove();
    }
  });
});

async function writeLarge(engine: Engine, n: number): Promise<void> {
  const { rev } = await engine.load(STREAM, []);
  const message = { payload: Buffer.from(payload(n).padEnd(20_000, ".")), at: n };
  await engine.commit(STREAM, { rev }, [{ op: "append", messages: [message] }]);
}

async function eventually(attempt: () => Promise<void>): Promise<void> {
  for (let left = 200; ; left--) {
    try {
      await attempt();
      return;
    } catch (fault) {
      if (left === 0) throw fault;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

describe("a directory that cannot be written", () => {
  it("is refused with its name", async () => {
    const disk = smallDisk(2);
    const { dir, remove } = disk ?? temporaryDir();
    const data = join(dir, "data");
    mkdirSync(data);
    if (disk) disk.remount("ro");
    else chmodSync(data, 0o555);
    try {
      const error = await refusal(openDisk({ dir: data, world: realWorld() }));
      expect(error.code).toBe("storage-failed");
      expect(error.message).toContain(data);
      expect(error.message).toMatch(/cannot be written/);
    } finally {
      if (!disk) chmodSync(data, 0o755);
      remove();
    }
  });

  it("is refused at once if no directory can be made there", async () => {
    // Node's own recursive mkdir never returns there.
    if (!existsSync("/proc/self")) return;
    const error = await refusal(openDisk({ dir: "/proc/sluice/data", world: realWorld() }));
    expect(error.code).toBe("storage-failed");
    expect(error.message).toMatch(/\/proc\/sluice\/data cannot be written/);
  });

  it("is created with all its missing parents", async () => {
    const { dir, remove } = temporaryDir();
    await (await openAt(join(dir, "a/b/c"))).close();
    expect(statSync(join(dir, "a/b")).mode & 0o777).toBe(0o750);
    remove();
  });

  it("is refused when it is a file", async () => {
    const { dir, remove } = temporaryDir();
    writeFileSync(join(dir, "data"), "not a directory");
    const error = await refusal(openDisk({ dir: join(dir, "data"), world: realWorld() }));
    expect(error.message).toContain(join(dir, "data"));
    remove();
  });
});

describe("a directory that is in use", () => {
  let script: string;
  beforeAll(async () => {
    script = await bundle("kill-child");
  });
  afterAll(() => removeBundle(script));

  it("is refused with its name and the owner's pid, until the owner has ended", async () => {
    const { dir, remove } = temporaryDir();
    const child = spawn(process.execPath, [script, dir, "1", "write"], { stdio: ["ignore", "pipe", "inherit"] });
    await new Promise<void>((resolve) =>
      child.stdout!.on("data", (bytes: Buffer) => bytes.includes("ready") && resolve()),
    );
    child.stdout!.resume();
    const before = readdirSync(dir).sort();
    const error = await refusal(openAt(dir));
    expect(error.message).toContain(dir);
    expect(error.message).toContain(`process ${child.pid}`);
    expect(readdirSync(dir).sort()).toEqual(before);
    child.kill("SIGKILL");
    await new Promise((resolve) => child.on("exit", resolve));
    expect(existsSync(join(dir, "lock.sock"))).toBe(true);
    const engine = await openAt(dir);
    await engine.close();
    remove();
  });

  it("is refused within one process, and free again after closing", async () => {
    const { dir, remove } = temporaryDir();
    const engine = await openAt(dir);
    expect((await refusal(openAt(dir))).message).toContain(`process ${process.pid}`);
    await engine.close();
    await (await openAt(dir)).close();
    remove();
  });

  it("goes to one of many processes that start at once over a dead lock", async () => {
    const { dir, remove } = temporaryDir();
    writeFileSync(join(dir, "lock.sock"), "");
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => openAt(dir)));
    const opened = results.filter((result) => result.status === "fulfilled");
    expect(opened).toHaveLength(1);
    await opened[0]!.value.close();
    remove();
  });

  it("is refused as well on a file system without sockets", async () => {
    const { dir, remove } = temporaryDir();
    const listenAt: Listen = (address) =>
      address.startsWith("\0") ? listen(address) : Promise.reject(systemFault("ENOTSUP"));
    const release = await lockDirectory(dir, listenAt);
    expect((await refusal(lockDirectory(dir, listenAt))).message).toContain(`process ${process.pid}`);
    await release();
    await (await lockDirectory(dir, listenAt))();
    remove();
  });

  it("can have a path that is too long for a socket", async () => {
    const { dir, remove } = temporaryDir();
    const deep = join(dir, "a".repeat(100), "b".repeat(100));
    const engine = await openAt(deep);
    expect((await refusal(openAt(deep))).message).toContain(`process ${process.pid}`);
    expect(statSync(join(deep, "lock.sock")).isSocket()).toBe(true);
    await engine.close();
    remove();
  });
});
