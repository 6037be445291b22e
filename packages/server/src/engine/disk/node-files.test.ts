/** The real file system behind the port, where a mistake would show only after a power cut. */
import { constants, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { temporaryDir } from "../../../../../test/support/disk.ts";
import { flushing } from "./files.ts";
import { nodeFiles } from "./node-files.ts";

/** The kernel's flags of the open file; undefined if it is not open. */
function flagsOf(path: string): number | undefined {
  for (const fd of readdirSync("/proc/self/fd")) {
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`) !== path) continue;
      const [, flags] = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"))!;
      return Number.parseInt(flags!, 8);
    } catch {
      // This descriptor was open only to list the others.
    }
  }
  return undefined;
}

function someFile(): string {
  const { dir, remove } = temporaryDir();
  onTestFinished(remove);
  const path = join(dir, "file");
  writeFileSync(path, "0123456789");
  return path;
}

it("has the kernel flush every write to a durable file, and to no other", async () => {
  const path = someFile();
  for (const [how, isFlushed] of [
    ["durable", true],
    ["write", false],
  ] as const) {
    const file = await nodeFiles.open(path, how);
    expect((flagsOf(path)! & constants.O_DSYNC) !== 0, how).toBe(isFlushed);
    await file.write(Buffer.from("ab"), 3);
    await file.close();
  }
  expect(readFileSync(path, "utf8")).toBe("012ab56789");
});

it("flushes after every write if the kernel does not, and reports a failed flush", async () => {
  const file = await nodeFiles.open(someFile(), "write");
  const calls: string[] = [];
  const watched = flushing({
    size: () => file.size(),
    read: (into, at) => file.read(into, at),
    write: async (bytes, at) => void calls.push(`write ${bytes.length} at ${at}`),
    sync: async () => {
      calls.push("sync");
      if (calls.length > 2) throw new Error("not flushed");
    },
    close: () => file.close(),
  });
  await watched.write(Buffer.from("ab"), 3);
  expect(calls).toEqual(["write 2 at 3", "sync"]);
  await expect(watched.write(Buffer.from("c"), 5)).rejects.toThrow("not flushed");
  await watched.close();
});
