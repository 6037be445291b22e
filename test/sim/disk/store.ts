/**
 * A simulated ordered store behind the `Store` port. The simulated disk storage opens it.
 *
 * Invariants: its content outlives the engine. A transaction is in it wholly or not at all, as LMDB promises, so a power cut
 * needs no code here.
 */
import type { Store, Writing } from "../../../packages/server/src/engine/disk/store.ts";

export class SimStore implements Store, Writing {
  /** Keys as latin1 text, whose order is that of their bytes. */
  private readonly entries = new Map<string, Buffer>();
  private readonly order: string[] = [];
  /** The undo steps of the transaction, last first. */
  private undo: (() => void)[] = [];
  /** The bytes of the last `peek`, which the next read overwrites. */
  private peeked: Buffer = Buffer.alloc(0);
  /** May throw in place of a commit. */
  fault: (() => Error | undefined) | undefined;

  get(key: Buffer): Buffer | undefined {
    this.peeked.fill(0xff);
    const value = this.entries.get(key.toString("latin1"));
    return value && Buffer.from(value);
  }

  peek(key: Buffer): Buffer | undefined {
    const value = this.get(key);
    this.peeked = value ?? this.peeked;
    return value;
  }

  scan(from: Buffer, to: Buffer, visit: (key: Buffer, value: Buffer) => boolean): void {
    this.keys(from, to, (key) => visit(key, this.get(key)!));
  }

  keys(from: Buffer, to: Buffer, visit: (key: Buffer) => boolean): void {
    this.peeked.fill(0xff);
    const end = to.toString("latin1");
    for (let i = this.firstFrom(from.toString("latin1")); i < this.order.length && this.order[i]! < end; i++) {
      if (!visit(Buffer.from(this.order[i]!, "latin1"))) return;
    }
  }

  lastKey(from: Buffer, to: Buffer): Buffer | undefined {
    this.peeked.fill(0xff);
    const last = this.order[this.firstFrom(to.toString("latin1")) - 1];
    return last !== undefined && last >= from.toString("latin1") ? Buffer.from(last, "latin1") : undefined;
  }

  transact(change: (tx: Writing) => void): void {
    this.undo = [];
    try {
      change(this);
      const fault = this.fault?.();
      if (fault !== undefined) throw fault;
    } catch (fault) {
      for (const takeBack of this.undo.reverse()) takeBack();
      throw fault;
    }
  }

  /** Only inside a transaction. */
  put(key: Buffer, value: Buffer): void {
    this.set(key.toString("latin1"), Buffer.from(value));
  }

  remove(key: Buffer): void {
    this.set(key.toString("latin1"), undefined);
  }

  private set(key: string, value: Buffer | undefined): void {
    const before = this.entries.get(key);
    if (before === undefined && value === undefined) return;
    this.replace(key, value);
    this.undo.push(() => this.replace(key, before));
  }

  private replace(key: string, value: Buffer | undefined): void {
    const at = this.firstFrom(key);
    if (value === undefined) {
      this.entries.delete(key);
      this.order.splice(at, 1);
    } else {
      if (!this.entries.has(key)) this.order.splice(at, 0, key);
      this.entries.set(key, value);
    }
  }

  refresh(): void {}

  async close(): Promise<void> {}

  private firstFrom(key: string): number {
    let low = 0;
    let high = this.order.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.order[middle]! < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
