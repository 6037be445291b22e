/**
 * The file system that the journal needs, so small that a simulation can replace it. `node-files.ts` implements it.
 *
 * Invariants: after `sync` returns, earlier writes to the file survive a power cut. So does a write to a `durable` file once it
 * returns. After `syncDir` the names in that directory survive. Everything else may be lost, torn or reordered. Faults carry the
 * `code` of the operating system (ENOSPC, EIO, EROFS...).
 */
export interface Files {
  /** Creates the directory and its missing parents. */
  makeDir(dir: string): Promise<void>;
  /** The names in a directory, in no particular order. */
  names(dir: string): Promise<string[]>;
  open(path: string, how: Opening): Promise<File>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  syncDir(dir: string): Promise<void>;
  /** Makes this process the only owner of the directory until `release` or its death; throws if another process owns it. */
  lock(dir: string, answerMs?: number): Promise<Release>;
}

/** `durable` is `write`, and each write is flushed when it returns. */
export type Opening = "read" | "write" | "create" | "durable";

export type Release = () => Promise<void>;

export interface File {
  size(): Promise<number>;
  /** Fills `into` from `at` on; the count is smaller only at the end of the file. */
  read(into: Uint8Array, at: number): Promise<number>;
  /** Writes all bytes or throws; after a throw any part of them may be written. */
  write(bytes: Uint8Array, at: number): Promise<void>;
  /** Flushes the data and the size. After a failure, earlier writes are in doubt until they are written again. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Makes a file whose writes are flushed when they return from one that needs `sync`. */
export function flushing(file: File): File {
  return {
    size: () => file.size(),
    read: (into, at) => file.read(into, at),
    write: async (bytes, at) => {
      await file.write(bytes, at);
      await file.sync();
    },
    sync: () => file.sync(),
    close: () => file.close(),
  };
}

/** Reads a whole file. Callers read small files, or segments, whose size is bounded. */
export async function readWhole(files: Files, path: string): Promise<Buffer> {
  const file = await files.open(path, "read");
  try {
    const bytes = Buffer.allocUnsafeSlow(await file.size());
    const count = await file.read(bytes, 0);
    return bytes.subarray(0, count);
  } finally {
    await file.close();
  }
}

/** Writes a small file so that a crash leaves the old one, the new one or none, never a half. */
export async function writeWhole(files: Files, dir: string, name: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${dir}/${name}.tmp`;
  const file = await files.open(temporary, "create");
  try {
    await file.write(bytes, 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await files.rename(temporary, `${dir}/${name}`);
  await files.syncDir(dir);
}
