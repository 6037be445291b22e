/**
 * The ordered key-value store that the engine needs (LMDB, or a simulated one): synchronous reads, synchronous transactions,
 * bytewise order of keys.
 *
 * Invariants: when `transact` returns, the transaction is flushed and survives a power cut; when it throws, it changed nothing.
 * The bytes that a read returns belong to the reader, those of `peek` excepted.
 */
import type { EngineError } from "../contract.ts";
import type { Proven } from "./verify/path-guard.ts";

export interface Reading {
  get(key: Buffer): Buffer | undefined;
  /** Entries with from <= key < to in order, until `visit` returns false. */
  scan(from: Buffer, to: Buffer, visit: (key: Buffer, value: Buffer) => boolean): void;
  /** Like `scan`, without values. */
  keys(from: Buffer, to: Buffer, visit: (key: Buffer) => boolean): void;
  /** The greatest key with from <= key < to. */
  lastKey(from: Buffer, to: Buffer): Buffer | undefined;
}

export interface Writing extends Reading {
  /** Like `get`, without memory of its own: the bytes are valid until the next read. For small values. */
  peek(key: Buffer): Buffer | undefined;
  /** Copies the value. */
  put(key: Buffer, value: Buffer): void;
  remove(key: Buffer): void;
}

export interface Store extends Reading {
  transact(change: (tx: Writing) => void): void;
  /** Later reads see every earlier commit, of any thread. */
  refresh(): void;
  close(): Promise<void>;
  /** Present for a store of an earlier process, until its check has passed. */
  readonly unchecked?: Unchecked;
}

/** The background check's hold on the store. */
export interface Unchecked {
  readonly proven: Proven;
  /** Until the release, LMDB reuses no page of the newest snapshot. */
  pin(): () => void;
  /** The whole store is undamaged. */
  passed(): void;
  /** Refuses every later access with this error. */
  refuse(error: EngineError): void;
}
