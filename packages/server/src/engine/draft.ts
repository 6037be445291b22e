/**
 * The state a keeper works on: the loaded state plus the changes of inputs that have run and are not committed yet. Rules see it
 * as a `View` and return `Change`s, which the draft applies and collects as effects for the engine.
 *
 * Invariants: only its keeper touches a draft.
 */
import { type Done, type Effect, type Head, NO_HEAD, type Rev, type RowKey, type Snapshot } from "./contract.ts";
import { headStep } from "./head.ts";
import type { Table } from "./table.ts";

/** What a rule asks for. Rows are values here; the draft turns them into the engine's effects. */
export type Change = Exclude<Effect, { op: "put" | "drop" }> | Put | Drop;

interface Put {
  readonly op: "put";
  readonly table: Table<unknown>;
  readonly key: string;
  readonly value: unknown;
}

interface Drop {
  readonly op: "drop";
  readonly table: Table<unknown>;
  readonly key: string;
}

export function put<T>(table: Table<T>, key: string, value: T): Change {
  return { op: "put", table: table as Table<unknown>, key, value };
}

export function drop<T>(table: Table<T>, key: string): Change {
  return { op: "drop", table: table as Table<unknown>, key };
}

/** A row as loaded, decoded at a rule's first look. */
interface Cell {
  readonly table: string;
  readonly key: string;
  bytes: Uint8Array | undefined;
  value: unknown;
  decoded: boolean;
}

/** The approximate cost of a message besides its payload, so that a commit of tiny messages is bounded too. */
const MESSAGE_BYTES = 32;

/** Shared by all idle drafts, because an empty list for each would be one more object per entity. */
const NO_EFFECTS: Effect[] = [];

export class Draft {
  rev: Rev = 0;
  exists = false;
  head: Head = NO_HEAD;
  nextGeneration = 0;
  /** Set when the commit must end here: no effect may follow a destroy. */
  sealed = false;
  appendedBytes = 0;
  keys: RowKey[] = [];
  private loaded = false;
  /** The last list of keys that was found complete, because callers pass the same list again and again. */
  private checked: readonly RowKey[] | undefined;
  private readonly cells = new Map<string, Cell>();
  /** The row that a rule read last, because most rules of an entity begin with the same one. */
  private last: Cell | undefined;
  private effects = NO_EFFECTS;

  /** The draft forgets rows beyond `maxRows` between batches: a keeper is a working set, not a cache of the entity. */
  constructor(private readonly maxRows: number) {}

  get<T>(table: Table<T>, key: string): T | undefined {
    const cell = this.cellOf(table.name, key);
    if (!cell.decoded) {
      cell.value = cell.bytes === undefined ? undefined : table.decode(cell.bytes);
      cell.decoded = true;
      cell.bytes = undefined;
    }
    return cell.value as T | undefined;
  }

  private cellOf(table: string, key: string): Cell {
    const { last } = this;
    if (last !== undefined && last.table === table && last.key === key) return last;
    const cell = this.cells.get(cellName(table, key));
    if (cell === undefined) throw new Error(`a rule read ${table}/${key} without naming it in its keys`);
    this.last = cell;
    return cell;
  }

  apply(change: Change): void {
    switch (change.op) {
      case "put":
        this.setRow(change.table.name, change.key, change.value);
        this.note({
          op: "put",
          table: change.table.name,
          key: change.key,
          value: change.table.encode(change.value),
        });
        return;
      case "drop":
        this.setRow(change.table.name, change.key, undefined);
        this.note({ op: "drop", table: change.table.name, key: change.key });
        return;
      case "append":
        for (const { payload } of change.messages) this.appendedBytes += MESSAGE_BYTES + payload.length;
        break;
      case "begin":
        this.exists = true;
        this.nextGeneration = change.generation + 1;
        break;
      case "destroy":
        this.sealed = true;
        break;
    }
    this.head = headStep(this.head, change);
    this.note(change);
  }

  private note(effect: Effect): void {
    if (this.effects === NO_EFFECTS) this.effects = [effect];
    else this.effects.push(effect);
  }

  takeEffects(): readonly Effect[] {
    const taken = this.effects;
    this.effects = NO_EFFECTS;
    this.appendedBytes = 0;
    return taken;
  }

  /** Adopts the engine's head, though it is equal, because memory then holds one copy instead of two. */
  committed({ rev, head }: Done): void {
    this.rev = rev;
    this.head = head;
    this.exists = rev !== 0;
    // Only the engine knows what a later incarnation may look like.
    if (this.sealed || this.cells.size > this.maxRows) this.forget();
  }

  /** Undefined if the draft has every row that these inputs need; otherwise the keys to load. */
  missing(inputs: readonly { readonly keys: readonly RowKey[] }[]): readonly RowKey[] | undefined {
    let wanted: Map<string, RowKey> | undefined;
    for (const { keys } of inputs) {
      if (keys === this.checked) continue;
      for (const key of keys) {
        const name = cellName(key.table, key.key);
        if (this.cells.has(name)) continue;
        wanted ??= new Map();
        wanted.set(name, key);
      }
    }
    if (wanted) return [...wanted.values()];
    if (!this.loaded) return [];
    this.checked = inputs.at(-1)?.keys;
    return undefined;
  }

  /** Takes in the rows that `missing` named; false if their rev differs from the draft's. */
  fill(keys: readonly RowKey[], snapshot: Snapshot): boolean {
    if (this.loaded && snapshot.rev !== this.rev) return false;
    if (!this.loaded) {
      this.rev = snapshot.rev;
      this.exists = snapshot.rev !== 0;
      this.head = snapshot.head;
      this.nextGeneration = snapshot.nextGeneration;
      this.loaded = true;
    }
    for (const [i, key] of keys.entries()) this.addCell(key, snapshot.rows[i]);
    return true;
  }

  /** Starts over from the state that a conflict returned. */
  replace(snapshot: Snapshot): void {
    const keys = this.keys;
    this.forget();
    this.fill(keys, snapshot);
  }

  forget(): void {
    this.loaded = false;
    this.sealed = false;
    this.appendedBytes = 0;
    this.effects = NO_EFFECTS;
    this.cells.clear();
    this.last = undefined;
    this.checked = undefined;
    this.keys = [];
  }

  private addCell(key: RowKey, bytes: Uint8Array | undefined): void {
    this.keys.push(key);
    const { table, key: name } = key;
    this.cells.set(cellName(table, name), { table, key: name, bytes, value: undefined, decoded: false });
  }

  private setRow(table: string, key: string, value: unknown): void {
    const name = cellName(table, key);
    const cell = this.cells.get(name);
    if (cell === undefined) {
      this.keys.push({ table, key });
      this.cells.set(name, { table, key, bytes: undefined, value, decoded: true });
    } else {
      cell.value = value;
      cell.decoded = true;
      cell.bytes = undefined;
    }
  }
}

function cellName(table: string, key: string): string {
  return `${table}/${key}`;
}
