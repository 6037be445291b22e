/**
 * LMDB behind the `Store` port. The engine's thread opens it to read (and to recover), the apply worker to write; both share one
 * environment of the process.
 *
 * Invariants: a committed transaction is flushed. lmdb-js makes commits visible before their flush unless `overlappingSync` is
 * off. With it off, and without `noSync`, a commit writes the pages and calls fdatasync. It then writes the meta page through a
 * descriptor opened with O_DSYNC, and returns. The map grows by itself; old maps stay until their readers are gone.
 */
import { statfsSync } from "node:fs";
import { basename, dirname } from "node:path";
import { type Database, type Key, open, type RootDatabase } from "lmdb";
import { EngineError } from "../contract.ts";
import { DEFAULT_LIMITS, PAGE_BYTES } from "./defaults.ts";
import type { Pinnable } from "./guarded-store.ts";
import { MAX_KEY_BYTES } from "./keys.ts";
import type { Writing } from "./store.ts";
import { engineErrorOf, isFull } from "./system-fault.ts";

/** Address space, not memory. A map that grows from zero would leave many old maps behind. */
const FIRST_MAP_BYTES = 1024 ** 3;

type Binary = RootDatabase<Buffer, Key>;

export function openLmdb(path: string): Pinnable {
  try {
    const database = open<Buffer, Key>({
      path,
      encoding: "binary",
      keyEncoding: "binary",
      cache: false,
      compression: false,
      overlappingSync: false,
      noSubdir: true,
      pageSize: PAGE_BYTES,
      mapSize: FIRST_MAP_BYTES,
      // Missing in its types. Only the server's user and group may read messages.
      ...{ permissionsMode: 0o640 },
    });
    const longest = (database as unknown as { maxKeySize: number }).maxKeySize;
    if (longest < MAX_KEY_BYTES) throw new Error(`its keys are limited to ${longest} bytes`);
    return new LmdbStore(database, path);
  } catch (fault) {
    throw translate(fault, path);
  }
}

/** LMDB's faults carry a number, its own (negative) or the operating system's, and a text. */
function translate(fault: unknown, path: string): Error {
  if (fault instanceof EngineError) return fault;
  const message = fault instanceof Error ? fault.message : String(fault);
  if (
    isFull(fault) ||
    /no space left|MAP_FULL|quota/i.test(message) ||
    (/input\/output/i.test(message) && isNearlyFull(path))
  ) {
    return new EngineError("storage-full", "The disk is full.", `The disk of ${path} is full: ${message}.`);
  }
  if (/MDB_(CORRUPTED|PAGE_NOTFOUND|INVALID|PANIC|BAD_TXN|VERSION_MISMATCH|PROBLEM)|Invalid key size/.test(message)) {
    const explanation = `The store ${path} is damaged: ${message}.`;
    return new EngineError("data-damaged", `The store is damaged: ${basename(path)}.`, explanation);
  }
  return engineErrorOf(fault, "The store", path);
}

/**
 * Whether the disk has hardly any space left. LMDB reports a partial write as an input/output error, whatever the reason, and
 * undoes the transaction. Without space that was the reason, and a later retry makes sense.
 */
function isNearlyFull(path: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize < 4 * DEFAULT_LIMITS.transactionBytes;
  } catch {
    return false;
  }
}

class LmdbStore implements Pinnable, Writing {
  constructor(
    private readonly database: Binary,
    private readonly path: string,
  ) {}

  get(key: Buffer): Buffer | undefined {
    try {
      return asBuffer(this.database.getBinary(key));
    } catch (fault) {
      throw translate(fault, this.path);
    }
  }

  peek(key: Buffer): Buffer | undefined {
    try {
      // lmdb-js reads into one buffer, to which it gives the length of the value.
      const shared = this.database.getBinaryFast(key);
      return shared && Buffer.from(shared.buffer, shared.byteOffset, shared.length);
    } catch (fault) {
      throw translate(fault, this.path);
    }
  }

  scan(from: Buffer, to: Buffer, visit: (key: Buffer, value: Buffer) => boolean): void {
    this.walk(() => {
      for (const { key, value } of this.database.getRange({ start: from, end: to })) {
        if (!visit(asBuffer(key as Uint8Array)!, asBuffer(value)!)) return;
      }
    });
  }

  keys(from: Buffer, to: Buffer, visit: (key: Buffer) => boolean): void {
    this.walk(() => {
      for (const key of this.database.getKeys({ start: from, end: to })) {
        if (!visit(asBuffer(key as Uint8Array)!)) return;
      }
    });
  }

  lastKey(from: Buffer, to: Buffer): Buffer | undefined {
    let last: Buffer | undefined;
    this.walk(() => {
      // A reverse range starts at the greatest key that is not above `start`, which may be `to` itself.
      for (const found of this.database.getKeys({
        start: to,
        end: from,
        reverse: true,
        inclusiveEnd: true,
        limit: 2,
      })) {
        const key = asBuffer(found as Uint8Array)!;
        if (last === undefined && key.compare(to) < 0) last = key;
      }
    });
    return last;
  }

  transact(change: (tx: Writing) => void): void {
    try {
      (this.database as Database<Buffer, Key>).transactionSync(() => change(this));
    } catch (fault) {
      throw translate(fault, this.path);
    }
  }

  put(key: Buffer, value: Buffer): void {
    this.database.putSync(key, value);
  }

  remove(key: Buffer): void {
    this.database.removeSync(key);
  }

  refresh(): void {
    this.database.resetReadTxn();
  }

  /** Opens a read transaction of LMDB, so that LMDB does not reuse the pages of its snapshot. */
  pin(): () => void {
    const reader = this.database.useReadTransaction();
    return () => reader.done();
  }

  close(): Promise<void> {
    return this.database.close();
  }

  private walk(run: () => void): void {
    try {
      run();
    } catch (fault) {
      throw translate(fault, this.path);
    }
  }
}

/** lmdb-js returns copies as plain byte arrays. */
function asBuffer(bytes: Uint8Array | undefined): Buffer | undefined {
  if (bytes === undefined || Buffer.isBuffer(bytes)) return bytes as Buffer | undefined;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
