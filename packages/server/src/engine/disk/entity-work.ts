/** The work of one applier transaction on one entity, joined from all its commits in that transaction. */

import type { Run } from "./chunk.ts";
import type { BlockVisitor } from "./commit-block.ts";

const NOTHING = Buffer.alloc(0);

export interface RowWork {
  readonly suffix: Buffer;
  /** Undefined for a dropped row. */
  readonly value: Buffer | undefined;
}

export class EntityWork implements BlockVisitor {
  rev = 0;
  /** Head and reminder after the last commit. */
  fixed: Buffer = NOTHING;
  /** Set if the transaction creates the entity. */
  name: Buffer | undefined;
  reminded = false;
  destroyed = false;
  /** The generation of the last `begin`, 0 for none. */
  begun = 0;
  trimmed: { readonly generation: number; readonly seq: number } | undefined;
  run: Run | undefined;
  readonly rows = new Map<string, RowWork>();

  constructor(readonly number: number) {}

  begin(generation: number): void {
    this.begun = generation;
    this.run = undefined;
    this.trimmed = undefined;
  }

  append(generation: number, firstSeq: number, count: number, records: Buffer): void {
    if (count === 0) return;
    this.run ??= { generation, firstSeq, count: 0, bytes: 0, parts: [] };
    this.run.parts.push({ records, count });
    this.run.count += count;
    this.run.bytes += records.length;
  }

  put(suffix: Buffer, value: Buffer): void {
    this.rows.set(suffix.toString("latin1"), { suffix, value });
  }

  drop(suffix: Buffer): void {
    this.rows.set(suffix.toString("latin1"), { suffix, value: undefined });
  }

  trim(generation: number, seq: number): void {
    this.trimmed = { generation, seq };
  }
}
