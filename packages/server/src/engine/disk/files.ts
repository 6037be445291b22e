/**
 * What the journal needs of a file system, and no more, so that a simulation can stand in for it.
 *
 * What must stay true: after `sync` returned, what was written to the file before it survives a power cut; after a write to a
 * `durable` file returned, so does that write; after `syncDir`, so do the names in that directory. Everything else may be lost, torn or
 * reordered. Faults carry the `code` of the operating system (ENOSPC, EIO, EROFS...).
 */
export interface Files {
  /** Creates the directory and its parents where they are missing. */
  makeDir(dir: string): Promise<void>;
  /** The names in a directory, in no particular order. */
  names(dir: string): Promise<string[]>;
  open(path: string, how: Opening): Promise<File>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  syncDir(dir: string): Promise<void>;
  /** Makes this process the only owner of the directory until `release`, or until it dies; throws when another one is. */
  lock(dir: string, answerMs?: number): Promise<Release>;
}

/** `durable` is `write` where whatever is written has been flushed when the write returns. */
export type Opening = "read" | "write" | "create" | "durable";

export type Release = () => Promise<void>;

export interface File {
  size(): Promise<number>;
  /** Fills `into` from `at` on; the count is smaller only at the end of the file. */
  read(into: Uint8Array, at: number): Promise<number>;
  /** All of the bytes, or it throws; then any part of them may have been written. */
  write(bytes: Uint8Array, at: number): Promise<void>;
  /** Flushes the data and the size. After a failure, what was written before it is in doubt until it is written again. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A file whose writes are flushed when they return, made of one whose writes are not. */
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

/** The operating system's code of a fault, or "" when it has none. */
export function faultCode(fault: unknown): string {
  const code = (fault as { code?: unknown } | undefined)?.code;
  return typeof code === "string" ? code : "";
}

/** Whether more space would have helped. */
export function isFull(fault: unknown): boolean {
  const code = faultCode(fault);
  return code === "ENOSPC" || code === "EDQUOT" || code === "MDB_MAP_FULL";
}

/** Reads a whole file; the files read this way are small or bounded by the segment size. */
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
