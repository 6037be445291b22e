/**
 * Opens the store of a data directory. What LMDB believes is checked first, as far as a start can wait for it (`verify/`); the
 * rest is checked in the background, and until then a guard stands before LMDB. `open.ts` calls it, `worker.ts` for the applier.
 *
 * Invariants: a directory that was used has a store. The first segment of the journal is made after the first transaction of
 * the store was flushed, so where there are segments, a store that is missing or empty was lost.
 */
import { closeSync, openSync } from "node:fs";
import { EngineError } from "../contract.ts";
import { type Files, faultCode } from "./files.ts";
import { GuardedStore } from "./guarded-store.ts";
import { openLmdb } from "./lmdb-store.ts";
import type { Store } from "./store.ts";
import { isLayoutKnown } from "./verify/layout.ts";
import { PathGuard, type Proven } from "./verify/path-guard.ts";
import { verifyOpening, verifyStore } from "./verify/verify-store.ts";

/** LMDB makes the file 8,272 bytes long for the 126 readers that it has by default, and takes a longer one as it is. */
const LOCKS_BYTES = { least: 8_272, made: 12_288 };

export interface StorePlace {
  readonly path: string;
  /** Whether there are segments of a journal beside it. */
  readonly wasUsed: boolean;
  /** Whether damage was found in an earlier life: then all of it is checked before it is opened. */
  readonly wasDamaged: boolean;
  /** How many bytes of leaves the start waits for. */
  readonly startBytes: number;
}

export async function openVerified(files: Files, place: StorePlace): Promise<Store> {
  const { path, wasUsed, wasDamaged, startBytes } = place;
  // On a machine of 32 bits LMDB lays out its file in another way, which the verifier does not know.
  if (!isLayoutKnown(process.arch)) return openLmdb(path);
  if (wasDamaged) {
    await verifyStore(files, path, (damage) => {
      throw damage;
    });
  }
  const found = await verifyOpening(files, path, startBytes);
  if (wasUsed && !found?.wasWritten) throw lostStore(path, found === undefined);
  await reserveLocks(files, `${path}-lock`);
  return found?.wasWritten ? openGuarded(path, found) : openLmdb(path);
}

/** For a store that an earlier life wrote and that is not checked to its end. */
export function openGuarded(path: string, proven: Proven): Store {
  const { txn, lastPage, hasLeavesChecked } = proven;
  const store = openLmdb(path);
  const fd = openSync(path, "r");
  const guard = new PathGuard(path, fd, { txn, lastPage, hasLeavesChecked });
  return new GuardedStore(store, guard, () => closeSync(fd));
}

/**
 * LMDB maps its file of locks without having room for it on the disk; if there is none, touching it ends the process. So
 * there is a file with room before LMDB looks for it. What is in it is of no concern: the first process to open it sets it up anew.
 */
async function reserveLocks(files: Files, path: string): Promise<void> {
  try {
    const file = await files.open(path, "read");
    const size = await file.size();
    await file.close();
    if (size >= LOCKS_BYTES.least) return;
  } catch (fault) {
    if (faultCode(fault) !== "ENOENT") throw fault;
  }
  const file = await files.open(path, "create");
  try {
    await file.write(Buffer.alloc(LOCKS_BYTES.made), 0);
  } finally {
    await file.close();
  }
}

export function lostStore(path: string, isEmpty: boolean): EngineError {
  const what = isEmpty ? "is missing or empty" : "holds nothing";
  return new EngineError("data-damaged", `The store ${path} ${what}, but there is a journal beside it.`);
}
