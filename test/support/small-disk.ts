/**
 * A file system of a few megabytes that a test can fill. The tests of full disks use it, where they may mount one.
 *
 * Invariants: `remove` unmounts it; the test calls that at its end.
 */
import { execFileSync } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { temporaryDir } from "./disk.ts";

export interface SmallDisk {
  readonly dir: string;
  remount(options: string): void;
  /** Takes all remaining space; returns the file that holds it. */
  fill(): string;
  remove(): void;
}

/** Undefined without the right to mount. */
export function smallDisk(megabytes: number): SmallDisk | undefined {
  const { dir, remove } = temporaryDir();
  const mount = (...args: string[]) => execFileSync("mount", args, { stdio: "ignore" });
  try {
    mount("-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", dir);
  } catch {
    remove();
    return undefined;
  }
  return {
    dir,
    remount: (options) => mount("-o", `remount,${options}`, dir),
    fill() {
      const ballast = join(dir, "ballast");
      const file = openSync(ballast, "w");
      for (let bytes = 1 << 20; bytes >= 512; bytes >>= 1) writeWhileRoom(file, Buffer.alloc(bytes, 1));
      closeSync(file);
      return ballast;
    },
    remove() {
      execFileSync("umount", ["-l", dir], { stdio: "ignore" });
      remove();
    },
  };
}

function writeWhileRoom(file: number, bytes: Buffer): void {
  try {
    while (writeSync(file, bytes) === bytes.length);
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== "ENOSPC") throw fault;
  }
}
