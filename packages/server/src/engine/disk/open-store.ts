/**
 * Opens the store of a data directory. It checks the structure that LMDB believes first, within the time budget of a start
 * (`verify/`). The background check covers the rest, and until then a guard stands before LMDB. `open.ts` calls it; `worker.ts`
 * calls `openGuarded` for the applier.
 *
 * Invariants: a used directory has a store. The first segment of the journal is made after the first transaction of the store was
 * flushed. So a missing or empty store beside segments was lost.
 */
import { closeSync, openSync } from "node:fs";
import { EngineError } from "../contract.ts";
import type { Files } from "./files.ts";
import { GuardedStore } from "./guarded-store.ts";
import { openLmdb } from "./lmdb-store.ts";
import type { Store } from "./store.ts";
import { faultCode } from "./system-fault.ts";
import { isLayoutKnown } from "./verify/layout.ts";
import { PathGuard, type Proven } from "./verify/path-guard.ts";
import { verifyOpening, verifyStore } from "./verify/verify-store.ts";

/** LMDB creates this file with 8,272 bytes for its default 126 readers, and accepts a longer one as it is. */
const LOCKS_BYTES = { least: 8_272, made: 12_288 };

export interface StorePlace {
  readonly path: string;
  /** Whether segments of a journal exist beside the store. */
  readonly wasUsed: boolean;
  /** Whether an earlier process found damage: then the whole store is checked before it opens. */
  readonly wasDamaged: boolean;
  /** Bytes of leaves that the start checks. */
  readonly startBytes: number;
}

export async function openVerified(files: Files, place: StorePlace): Promise<Store> {
  const { path, wasUsed, wasDamaged, startBytes } = place;
  // On a 32-bit machine LMDB uses another file layout, which the verifier does not know.
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

/** Opens a store that an earlier process wrote and whose check is not complete. */
export function openGuarded(path: string, proven: Proven): Store {
  const { txn, lastPage, hasLeavesChecked } = proven;
  const store = openLmdb(path);
  const fd = openSync(path, "r");
  const guard = new PathGuard(path, fd, { txn, lastPage, hasLeavesChecked });
  return new GuardedStore(store, guard, () => closeSync(fd));
}

/**
 * Creates LMDB's lock file with its blocks allocated. LMDB maps the file without reserving space, and touching a page without
 * space kills the process. The content does not matter, because the first process to open the file initializes it.
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
