/**
 * What the engine needs of an ordered key-value store (LMDB, or a simulated one): synchronous reads, synchronous
 * transactions, bytewise order of keys.
 *
 * Invariants: when `transact` returns, the transaction is flushed and survives a power cut; when it throws, nothing
 * of it happened. The bytes a read gives belong to the reader.
 */
import type { EngineError } from "../contract.ts";
import type { Proven } from "./verify/path-guard.ts";

export interface Reading {
  get(key: Buffer): Buffer | undefined;
  /** Entries with from <= key < to in order, until `visit` returns false. */
  scan(from: Buffer, to: Buffer, visit: (key: Buffer, value: Buffer) => boolean): void;
  /** The same without values. */
  keys(from: Buffer, to: Buffer, visit: (key: Buffer) => boolean): void;
  /** The greatest key with from <= key < to. */
  lastKey(from: Buffer, to: Buffer): Buffer | undefined;
}

export interface Writing extends Reading {
  put(key: Buffer, value: Buffer): void;
  remove(key: Buffer): void;
}

export interface Store extends Reading {
  transact(change: (tx: Writing) => void): void;
  /** Reads after this see everything that was committed before it, by whichever thread. */
  refresh(): void;
  close(): Promise<void>;
  /** Present in a store of an earlier life, until all of it was checked. */
  readonly unchecked?: Unchecked;
}

/** What the check in the background and the store need of each other. */
export interface Unchecked {
  readonly proven: Proven;
  /** Until it is released, no page of the newest snapshot is used anew. */
  pin(): () => void;
  /** All of it is whole. */
  passed(): void;
  /** From now on every access is refused with this. */
  refuse(error: EngineError): void;
}
