/**
 * Node's file system behind the `Files` port. `openDisk` and the apply worker use it.
 *
 * Invariants: no call blocks the event loop on the disk; every call goes through libuv's threads. It uses raw descriptors with
 * callbacks instead of FileHandles, because the journal writes thousands of batches per second.
 */
import * as fs from "node:fs";
import { dirname, resolve as resolvePath } from "node:path";
import { EngineError } from "../contract.ts";
import { type File, type Files, flushing, type Opening, type Release } from "./files.ts";
import { lockDirectory } from "./lock.ts";
import { faultCode, isFull } from "./system-fault.ts";

/**
 * Whether O_DSYNC replaces a separate flush, which saves one round trip to a thread: 13 to 25% more appends to one stream,
 * measured. On other systems the flag promises less than a flush, or is unknown.
 */
const FLUSHES_WRITES = process.platform === "linux";
const MODES = {
  read: "r",
  write: "r+",
  create: "w+",
  durable: fs.constants.O_RDWR | (FLUSHES_WRITES ? fs.constants.O_DSYNC : 0),
} as const;

export const nodeFiles: Files = {
  async makeDir(dir: string): Promise<void> {
    try {
      await makeDirs(resolvePath(dir));
      await fs.promises.access(dir, fs.constants.W_OK | fs.constants.R_OK | fs.constants.X_OK);
    } catch (fault) {
      const code = faultCode(fault);
      if (isFull(fault)) throw fault;
      if (code === "EEXIST") throw new EngineError("storage-failed", `The data directory ${dir} is a file.`);
      if (code === "ENOTDIR")
        throw new EngineError("storage-failed", `The data directory ${dir} lies below something that is a file.`);
      throw new EngineError("storage-failed", `The data directory ${dir} cannot be written (${code}).`);
    }
  },
  names: (dir: string) => fs.promises.readdir(dir),
  rename: (from: string, to: string) => fs.promises.rename(from, to),
  remove: (path: string) => fs.promises.rm(path),
  lock: (dir: string, answerMs?: number): Promise<Release> => lockDirectory(dir, undefined, answerMs),
  async open(path: string, how: Opening): Promise<File> {
    const file = new NodeFile(await settle<number>((done) => fs.open(path, MODES[how], 0o640, done)));
    return how === "durable" && !FLUSHES_WRITES ? flushing(file) : file;
  },
  async syncDir(dir: string): Promise<void> {
    // Windows cannot open a directory; its renames are durable by themselves.
    if (process.platform === "win32") return;
    const fd = await settle<number>((done) => fs.open(dir, "r", done));
    try {
      await settle<void>((done) => fs.fsync(fd, done));
    } finally {
      await settle<void>((done) => fs.close(fd, done));
    }
  },
};

/** Node's own recursive mode never returns below a directory that accepts no entries, such as /proc. */
async function makeDirs(dir: string): Promise<void> {
  try {
    await fs.promises.mkdir(dir, { mode: 0o750 });
  } catch (fault) {
    if (faultCode(fault) === "ENOENT" && !fs.existsSync(dirname(dir))) {
      await makeDirs(dirname(dir));
      await makeDirs(dir);
    } else if (faultCode(fault) !== "EEXIST" || !(await fs.promises.stat(dir)).isDirectory()) throw fault;
  }
}

class NodeFile implements File {
  constructor(private readonly fd: number) {}

  async size(): Promise<number> {
    return (await settle<fs.Stats>((done) => fs.fstat(this.fd, done))).size;
  }

  async read(into: Uint8Array, at: number): Promise<number> {
    let count = 0;
    while (count < into.length) {
      const got = await settle<number>((done) => fs.read(this.fd, into, count, into.length - count, at + count, done));
      if (got === 0) break;
      count += got;
    }
    return count;
  }

  write(bytes: Uint8Array, at: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const writeFrom = (from: number): void => {
        fs.write(this.fd, bytes, from, bytes.length - from, at + from, (fault, count) => {
          if (fault) reject(fault);
          else if (from + count < bytes.length) writeFrom(from + count);
          else resolve();
        });
      };
      writeFrom(0);
    });
  }

  sync(): Promise<void> {
    return settle<void>((done) => fs.fdatasync(this.fd, done));
  }

  close(): Promise<void> {
    return settle<void>((done) => fs.close(this.fd, done));
  }
}

type Callback<T> = (fault: NodeJS.ErrnoException | null, value?: T) => void;

function settle<T>(start: (done: Callback<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    start((fault, value) => (fault ? reject(fault) : resolve(value as T)));
  });
}
