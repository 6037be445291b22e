/**
 * Opens the store of a data directory: first the verifier reads its file, and only what has proven to be whole is given to LMDB.
 * `open.ts` calls it.
 *
 * What must stay true: a directory that was used has a store. The first segment of the journal is made after the first
 * transaction of the store was flushed, so where there are segments, a store that is missing or empty was lost.
 */
import { EngineError } from "../contract.ts";
import { type Files, faultCode } from "./files.ts";
import { openLmdb } from "./lmdb-store.ts";
import type { Store } from "./store.ts";
import { type VerifyDepth, verifyStore } from "./verify/verify-store.ts";

/** LMDB makes the file 8,272 bytes long for the 126 readers that it has by default, and takes a longer one as it is. */
const LOCKS_BYTES = { least: 8_272, made: 12_288 };

export interface StorePlace {
  readonly path: string;
  /** Whether there are segments of a journal beside it. */
  readonly wasUsed: boolean;
  readonly verify: VerifyDepth;
}

export async function openVerified(files: Files, { path, wasUsed, verify }: StorePlace): Promise<Store> {
  const found = await verifyStore(files, path, verify, (damage) => {
    throw damage;
  });
  if (wasUsed && found?.meta === undefined) throw lostStore(path, found === undefined);
  await reserveLocks(files, `${path}-lock`);
  return openLmdb(path);
}

/**
 * LMDB maps its file of locks without having room for it on the disk; if there is none, touching it ends the process. So
 * there is a file with room before LMDB looks for it. What is in it is of no concern: whoever is first sets it up anew.
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
