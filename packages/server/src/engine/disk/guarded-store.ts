/**
 * A store of an earlier process until the background check has read all of it. Every access asks the path guard first, so that
 * LMDB follows no unchecked page. `open-store.ts` makes it for the engine, `worker.ts` for the applier.
 *
 * Invariants: after `refuse` every read and write is refused, because a damaged structure can hide rows. After `passed` the store
 * is LMDB alone.
 */
import type { EngineError } from "../contract.ts";
import type { Reading, Store, Unchecked, Writing } from "./store.ts";
import type { PathGuard } from "./verify/path-guard.ts";

/** The store that can pin a snapshot. */
export interface Pinnable extends Store {
  pin(): () => void;
}

export class GuardedStore implements Store {
  private guard: PathGuard | undefined;
  private refusal: EngineError | undefined;
  readonly unchecked: Unchecked;

  constructor(
    private readonly inner: Pinnable,
    guard: PathGuard,
    private readonly release: () => void,
  ) {
    this.guard = guard;
    this.unchecked = {
      proven: guard.proven,
      pin: () => inner.pin(),
      passed: () => this.letGo(),
      refuse: (error) => {
        this.refusal = error;
      },
    };
  }

  get(key: Buffer): Buffer | undefined {
    return this.reading().get(key);
  }

  scan(from: Buffer, to: Buffer, visit: (key: Buffer, value: Buffer) => boolean): void {
    this.reading().scan(from, to, visit);
  }

  keys(from: Buffer, to: Buffer, visit: (key: Buffer) => boolean): void {
    this.reading().keys(from, to, visit);
  }

  lastKey(from: Buffer, to: Buffer): Buffer | undefined {
    return this.reading().lastKey(from, to);
  }

  transact(change: (tx: Writing) => void): void {
    this.demand();
    this.guard?.refresh();
    const { guard } = this;
    this.inner.transact(guard === undefined ? change : (tx) => change(new GuardedWriting(tx, guard)));
  }

  refresh(): void {
    this.inner.refresh();
  }

  async close(): Promise<void> {
    this.letGo();
    await this.inner.close();
  }

  private reading(): Reading {
    this.demand();
    // With every leaf checked, a read follows no unchecked page.
    if (this.guard === undefined || this.guard.proven.hasLeavesChecked) return this.inner;
    this.guard.refresh();
    return new GuardedReading(this.inner, this.guard);
  }

  private demand(): void {
    if (this.refusal !== undefined) throw this.refusal;
  }

  private letGo(): void {
    if (this.guard !== undefined) this.release();
    this.guard = undefined;
  }
}

class GuardedReading<R extends Reading> implements Reading {
  constructor(
    protected readonly inner: R,
    protected readonly guard: PathGuard,
  ) {}

  get(key: Buffer): Buffer | undefined {
    this.guard.admitOne(key);
    return this.inner.get(key);
  }

  scan(from: Buffer, to: Buffer, visit: (key: Buffer, value: Buffer) => boolean): void {
    this.byLeaf(from, to, (start, end) => {
      let isWanted = true;
      this.inner.scan(start, end, (key, value) => {
        isWanted = visit(key, value);
        return isWanted;
      });
      return isWanted;
    });
  }

  keys(from: Buffer, to: Buffer, visit: (key: Buffer) => boolean): void {
    this.byLeaf(from, to, (start, end) => {
      let isWanted = true;
      this.inner.keys(start, end, (key) => {
        isWanted = visit(key);
        return isWanted;
      });
      return isWanted;
    });
  }

  lastKey(from: Buffer, to: Buffer): Buffer | undefined {
    this.guard.admit(to);
    return this.inner.lastKey(from, to);
  }

  /** Walks a range in pieces that end at leaf borders, so that the guard admits it leaf by leaf. */
  private byLeaf(from: Buffer, to: Buffer, walk: (start: Buffer, end: Buffer) => boolean): void {
    let start = from;
    for (;;) {
      const ceiling = this.guard.admit(start);
      const isLast = ceiling === undefined || ceiling.compare(to) >= 0;
      if (!walk(start, isLast ? to : ceiling) || isLast) return;
      start = ceiling;
    }
  }
}

class GuardedWriting extends GuardedReading<Writing> implements Writing {
  peek(key: Buffer): Buffer | undefined {
    this.guard.admitOne(key);
    return this.inner.peek(key);
  }

  put(key: Buffer, value: Buffer): void {
    this.guard.admitChange(key);
    this.inner.put(key, value);
  }

  remove(key: Buffer): void {
    this.guard.admitChange(key);
    this.inner.remove(key);
  }
}
