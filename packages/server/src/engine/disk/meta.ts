/**
 * The store's row about itself, which every transaction of the applier rewrites.
 *
 *    0  f64  format version
 *    8  f64  everything up to this lsn is in the store
 *   16  f64  the greatest generation of any destroyed entity
 *   24  f64  the greatest number given to an entity
 *   32  f64  the number of times the directory was opened
 */
import { EngineError } from "../contract.ts";
import { FORMAT_VERSION } from "./frame.ts";
import { META_KEY } from "./keys.ts";
import { SEAL_BYTES, seal, unseal } from "./sealed.ts";
import type { Reading, Writing } from "./store.ts";

export interface Meta {
  appliedThrough: number;
  destroyedGeneration: number;
  lastNumber: number;
  boots: number;
}

const BYTES = 40;

export function readMeta(store: Reading): Meta {
  const value = store.get(META_KEY);
  return decodeMeta(value && unseal(META_KEY, value, () => "the row about the store itself"));
}

/** Decodes the row without its seal; undefined is a store that was never written. */
export function decodeMeta(row: Buffer | undefined): Meta {
  if (row === undefined) return { appliedThrough: 0, destroyedGeneration: 0, lastNumber: 0, boots: 0 };
  const version = row.readDoubleLE(0);
  if (version !== FORMAT_VERSION) {
    throw new EngineError(
      "data-damaged",
      `The store has format ${version}; this program reads format ${FORMAT_VERSION}.`,
    );
  }
  return {
    appliedThrough: row.readDoubleLE(8),
    destroyedGeneration: row.readDoubleLE(16),
    lastNumber: row.readDoubleLE(24),
    boots: row.readDoubleLE(32),
  };
}

export function writeMeta(tx: Writing, meta: Meta): void {
  const row = Buffer.alloc(SEAL_BYTES + BYTES);
  row.writeDoubleLE(FORMAT_VERSION, SEAL_BYTES);
  row.writeDoubleLE(meta.appliedThrough, SEAL_BYTES + 8);
  row.writeDoubleLE(meta.destroyedGeneration, SEAL_BYTES + 16);
  row.writeDoubleLE(meta.lastNumber, SEAL_BYTES + 24);
  row.writeDoubleLE(meta.boots, SEAL_BYTES + 32);
  tx.put(META_KEY, seal(META_KEY, row));
}
