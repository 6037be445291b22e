/**
 * Values with a checksum: every value in LMDB starts with one over its key and its bytes, because LMDB has none. The applier
 * seals, every reader unseals.
 *
 *   0  u32  crc32 of the key, then of the bytes after this field
 *   4  ...  the value
 *
 * Invariants: no reader returns a value whose checksum does not match.
 */
import { crc32 } from "node:zlib";
import { EngineError } from "../contract.ts";

export const SEAL_BYTES = 4;

/** Fills in the checksum of a value that has `SEAL_BYTES` of room in front. */
export function seal(key: Buffer, value: Buffer): Buffer {
  value.writeUInt32LE(crc32(value.subarray(SEAL_BYTES), crc32(key)), 0);
  return value;
}

/** The value behind its checksum; `what` names the damaged entity and position in the error. */
export function unseal(key: Buffer, value: Buffer, what: () => string): Buffer {
  if (isSealed(value, crc32(key))) return value.subarray(SEAL_BYTES);
  throw damaged(what(), key);
}

/** Whether the value has the right checksum, given that of its key. */
export function isSealed(value: Buffer, keySum: number): boolean {
  return value.length >= SEAL_BYTES && value.readUInt32LE(0) === crc32(value.subarray(SEAL_BYTES), keySum);
}

export function damaged(what: string, key: Buffer): EngineError {
  return new EngineError("data-damaged", `The store is damaged: ${what} (key ${key.toString("hex")} in store.mdb).`);
}
