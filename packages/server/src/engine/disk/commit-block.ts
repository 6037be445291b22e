/**
 * One commit as bytes. The engine writes it, exactly sized; the journal holds it, the applier reads it, and the tail cache refers
 * to the messages in it. The block does not contain its lsn, which follows from its place in the journal.
 *
 *    0  u32  length of the whole block
 *    4  u8   flags: 1 created, 2 destroyed, 4 the reminder changed
 *    5  u24  number of effects
 *    8  f64  number of the entity's incarnation
 *   16  72   head and reminder after this commit (head-row.ts)
 *   88       if created: the entity's name (head-row.ts)
 *            the effects, each starting with its u8 op:
 *              1 begin   f64 generation
 *              2 append  f64 generation, f64 first seq, u32 count, u32 length, records (record.ts)
 *              3 put     u16 length, table NUL key, u32 length, value
 *              4 drop    u16 length, table NUL key
 *              5 trim    f64 generation, f64 seq: the head's new start
 *
 * Invariants: effects are absolute (numbers, values, the resulting head), so applying a block is idempotent. Reminders and
 * destruction are in the fixed part, because only their last state counts.
 */
import type { Effect, Entity, Head } from "../contract.ts";
import { FIXED_BYTES, nameBytes, nameLength, readHead, readReminder, writeHead, writeName } from "./head-row.ts";
import { rowSuffix } from "./keys.ts";
import { recordBytes, writeRecord } from "./record.ts";
import type { Piece, Slab } from "./slab.ts";

export const CREATED = 1;
export const DESTROYED = 2;
export const REMINDED = 4;

const HEAD_AT = 16;
const NAME_AT = HEAD_AT + FIXED_BYTES;
const OP = { begin: 1, append: 2, put: 3, drop: 4, trim: 5 } as const;

/** Messages of one append inside a block, as the tail cache refers to them. */
export interface AppendedRange {
  readonly generation: number;
  readonly firstSeq: number;
  readonly count: number;
  readonly start: number;
  readonly end: number;
}

/** A row that a commit changed; `start` is -1 for a dropped row. */
export interface RowChange {
  /** table NUL key */
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

export interface Encoded {
  readonly block: Buffer;
  /** The piece that holds the block's memory; undefined for a large block. */
  readonly piece: Piece | undefined;
  readonly appends: readonly AppendedRange[];
  readonly rows: readonly RowChange[];
}

export interface Outcome {
  readonly number: number;
  readonly head: Head;
  readonly remindAtMs: number | null;
  readonly flags: number;
  /** The head before the effects. */
  readonly before: Head;
}

const NO_APPENDS: readonly AppendedRange[] = [];
const NO_ROWS: readonly RowChange[] = [];

export function encodeCommit(e: Entity, effects: readonly Effect[], outcome: Outcome, slab: Slab): Encoded {
  // The earlier effects of a destroyed entity have no reader.
  const kept = outcome.flags & DESTROYED ? [] : effects;
  const suffixes: Buffer[] = [];
  let bytes = NAME_AT + (outcome.flags & CREATED ? nameBytes(e) : 0);
  for (const effect of kept) bytes += effectBytes(effect, suffixes);

  const block = slab.take(bytes);
  block.writeUInt32LE(bytes, 0);
  block.writeDoubleLE(outcome.number, 8);
  writeHead(block, HEAD_AT, outcome.head, outcome.remindAtMs);
  const at = outcome.flags & CREATED ? writeName(block, NAME_AT, e) : NAME_AT;
  return new Writer(block, at, outcome, suffixes).writeAll(kept, slab.lastPiece);
}

function effectBytes(effect: Effect, suffixes: Buffer[]): number {
  switch (effect.op) {
    case "begin":
      return 9;
    case "append": {
      let bytes = 25;
      for (const message of effect.messages) bytes += recordBytes(message);
      return bytes;
    }
    case "put":
    case "drop": {
      const suffix = rowSuffix(effect.table, effect.key);
      suffixes.push(suffix);
      return 3 + suffix.length + (effect.op === "put" ? 4 + effect.value.length : 0);
    }
    case "trim":
      return 17;
    default:
      return 0;
  }
}

/** Writes effects one behind the other and records the places of messages and rows. */
class Writer {
  private count = 0;
  private nextSuffix = 0;
  private generation: number;
  private lastSeq: number;
  private appends = NO_APPENDS as AppendedRange[];
  private rows = NO_ROWS as RowChange[];

  constructor(
    private readonly block: Buffer,
    private at: number,
    private readonly outcome: Outcome,
    private readonly suffixes: readonly Buffer[],
  ) {
    this.generation = outcome.before.generation;
    this.lastSeq = outcome.before.last.seq;
  }

  writeAll(effects: readonly Effect[], piece: Piece | undefined): Encoded {
    for (const effect of effects) this.write(effect);
    this.block.writeUInt32LE((this.outcome.flags | (this.count << 8)) >>> 0, 4);
    return { block: this.block, piece, appends: this.appends, rows: this.rows };
  }

  private write(effect: Effect): void {
    switch (effect.op) {
      case "begin":
        this.generation = effect.generation;
        this.lastSeq = effect.at.seq;
        this.op(OP.begin);
        this.number(effect.generation);
        break;
      case "append":
        this.append(effect.messages);
        break;
      case "put":
        this.put(effect.table, effect.key, effect.value);
        break;
      case "drop":
        this.op(OP.drop);
        this.suffix();
        this.noteRow({ name: `${effect.table}\0${effect.key}`, start: -1, end: -1 });
        break;
      case "trim":
        this.op(OP.trim);
        this.number(effect.through.generation);
        this.number(effect.through.seq);
        break;
    }
  }

  private append(messages: Extract<Effect, { op: "append" }>["messages"]): void {
    const { block } = this;
    this.op(OP.append);
    this.number(this.generation);
    this.number(this.lastSeq + 1);
    block.writeUInt32LE(messages.length, this.at);
    const lengthAt = this.at + 4;
    const start = lengthAt + 4;
    let to = start;
    for (let i = 0; i < messages.length; i++) to = writeRecord(block, to, messages[i]!);
    block.writeUInt32LE(to - start, lengthAt);
    this.at = to;
    if (messages.length === 0) return;
    const range = { generation: this.generation, firstSeq: this.lastSeq + 1, count: messages.length, start, end: to };
    if (this.appends === NO_APPENDS) this.appends = [range];
    else this.appends.push(range);
    this.lastSeq += messages.length;
  }

  private put(table: string, key: string, value: Uint8Array): void {
    this.op(OP.put);
    this.suffix();
    this.block.writeUInt32LE(value.length, this.at);
    const start = this.at + 4;
    this.block.set(value, start);
    this.at = start + value.length;
    this.noteRow({ name: `${table}\0${key}`, start, end: this.at });
  }

  private noteRow(change: RowChange): void {
    if (this.rows === NO_ROWS) this.rows = [change];
    else this.rows.push(change);
  }

  private op(op: number): void {
    this.block[this.at++] = op;
    this.count++;
  }

  private number(value: number): void {
    this.block.writeDoubleLE(value, this.at);
    this.at += 8;
  }

  private suffix(): void {
    const suffix = this.suffixes[this.nextSuffix++]!;
    this.block.writeUInt16LE(suffix.length, this.at);
    suffix.copy(this.block, this.at + 2);
    this.at += 2 + suffix.length;
  }
}

/** A block of the journal, with the places that `encodeCommit` recorded when it wrote the block. */
export function decodeCommit(block: Buffer): Encoded {
  const appends: AppendedRange[] = [];
  const rows: RowChange[] = [];
  const placeOf = (part: Buffer) => {
    const start = part.byteOffset - block.byteOffset;
    return { start, end: start + part.length };
  };
  visitBlock(block, {
    begin: () => undefined,
    append(generation, firstSeq, count, records) {
      if (count > 0) appends.push({ generation, firstSeq, count, ...placeOf(records) });
    },
    put: (suffix, value) => void rows.push({ name: suffix.toString(), ...placeOf(value) }),
    drop: (suffix) => void rows.push({ name: suffix.toString(), start: -1, end: -1 }),
    trim: () => undefined,
  });
  return { block, piece: undefined, appends, rows };
}

/** The callbacks for the effects of a block. */
export interface BlockVisitor {
  begin(generation: number): void;
  /** `records` is a view into the block. */
  append(generation: number, firstSeq: number, count: number, records: Buffer): void;
  put(suffix: Buffer, value: Buffer): void;
  drop(suffix: Buffer): void;
  trim(generation: number, seq: number): void;
}

export const blockLength = (from: Buffer, at: number): number => from.readUInt32LE(at);
export const blockFlags = (block: Buffer): number => block[4]!;
export const blockNumber = (block: Buffer): number => block.readDoubleLE(8);
/** The head and the reminder, in the form of a head row. */
export const blockFixed = (block: Buffer): Buffer => block.subarray(HEAD_AT, NAME_AT);
export const blockGeneration = (block: Buffer): number => block.readDoubleLE(HEAD_AT);
export const blockHead = (block: Buffer): Head => readHead(block, HEAD_AT);
export const blockReminder = (block: Buffer): number | null => readReminder(block, HEAD_AT);
export const blockName = (block: Buffer): Buffer => block.subarray(NAME_AT, NAME_AT + nameLength(block, NAME_AT));

export function visitBlock(block: Buffer, visitor: BlockVisitor): void {
  const count = block.readUInt32LE(4) >>> 8;
  let at = blockFlags(block) & CREATED ? NAME_AT + nameLength(block, NAME_AT) : NAME_AT;
  for (let i = 0; i < count; i++) at = visitEffect(block, at, visitor);
}

function visitEffect(block: Buffer, at: number, visitor: BlockVisitor): number {
  switch (block[at]) {
    case OP.begin:
      visitor.begin(block.readDoubleLE(at + 1));
      return at + 9;
    case OP.append: {
      const start = at + 25;
      const end = start + block.readUInt32LE(at + 21);
      visitor.append(
        block.readDoubleLE(at + 1),
        block.readDoubleLE(at + 9),
        block.readUInt32LE(at + 17),
        block.subarray(start, end),
      );
      return end;
    }
    case OP.put: {
      const suffixEnd = at + 3 + block.readUInt16LE(at + 1);
      const end = suffixEnd + 4 + block.readUInt32LE(suffixEnd);
      visitor.put(block.subarray(at + 3, suffixEnd), block.subarray(suffixEnd + 4, end));
      return end;
    }
    case OP.drop: {
      const end = at + 3 + block.readUInt16LE(at + 1);
      visitor.drop(block.subarray(at + 3, end));
      return end;
    }
    case OP.trim:
      visitor.trim(block.readDoubleLE(at + 1), block.readDoubleLE(at + 9));
      return at + 17;
    default:
      throw new Error(`a checksummed commit holds the unknown effect ${block[at]}`);
  }
}
