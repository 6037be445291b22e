/**
 * Node's file system behind the `Files` port. `openDisk` and the apply worker use it, each with a reserve of descriptors.
 *
 * Invariants: no call blocks the event loop on the disk, unless descriptors are short; every other call goes through libuv's
 * threads. It uses raw descriptors with callbacks instead of FileHandles, because the journal writes thousands of batches per
 * second.
 */
import * as fs from "node:fs";
import { dirname, resolve as resolvePath } from "node:path";
import { EngineError } from "../contract.ts";
import { DescriptorReserve } from "./descriptor-reserve.ts";
import { type File, type Files, flushing, type Release } from "./files.ts";
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

/** Files that can be opened even if all descriptors are taken, as long as the reserve has one. */
export function filesWith(reserve: DescriptorReserve): Files {
  const open = async (path: string, flags: string | number): Promise<NodeFile> => {
    const mode = 0o640;
    const opened = settle<number>((done) => fs.open(path, flags, mode, done));
    return new NodeFile(await opened.catch((fault) => reserve.openInstead(fault, path, flags, mode)), reserve);
  };
  return {
    makeDir,
    names: (dir) => fs.promises.readdir(dir),
    rename: (from, to) => fs.promises.rename(from, to),
    remove: (path) => fs.promises.rm(path),
    /** The owner of a directory also keeps the descriptors that it will need. */
    async lock(dir, answerMs): Promise<Release> {
      const unlock = await lockDirectory(dir, undefined, answerMs);
      reserve.fill();
      return () => {
        reserve.release();
        return unlock();
      };
    },
    async open(path, how): Promise<File> {
      const file = await open(path, MODES[how]);
      return how === "durable" && !FLUSHES_WRITES ? flushing(file) : file;
    },
    async syncDir(dir): Promise<void> {
      // Windows cannot open a directory; its renames are durable by themselves.
      if (process.platform === "win32") return;
      const names = await open(dir, "r");
      try {
        await names.syncAll();
      } finally {
        await names.close();
      }
    },
  };
}

/** Files without a reserve, for commands that serve no connections. */
export const nodeFiles: Files = filesWith(new DescriptorReserve(0));

async function makeDir(dir: string): Promise<void> {
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
}

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
  constructor(
    private readonly fd: number,
    private readonly reserve: DescriptorReserve,
  ) {}

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

  /** Flushes the names of a directory. */
  syncAll(): Promise<void> {
    return settle<void>((done) => fs.fsync(this.fd, done));
  }

  async close(): Promise<void> {
    if (this.reserve.isShort) this.reserve.closeInto(this.fd);
    else await settle<void>((done) => fs.close(this.fd, done));
  }
}

type Callback<T> = (fault: NodeJS.ErrnoException | null, value?: T) => void;

function settle<T>(start: (done: Callback<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    start((fault, value) => (fault ? reject(fault) : resolve(value as T)));
  });
}
