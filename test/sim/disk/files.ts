/**
 * A simulated file system behind the `Files` port, with a power switch. `SimDrive` is the hardware and outlives a cut;
 * `SimDrive.files()` is the view of one process. The crash tests and the simulator use it.
 *
 * Invariants: written bytes lie in a volatile layer until a sync. A cut keeps any part of that layer, sector by sector and
 * in any order, and loses the rest. Creations, renames and removals since the last `syncDir` may each have happened or not.
 */
import {
  type File,
  type Files,
  flushing,
  type Opening,
  type Release,
} from "../../../packages/server/src/engine/disk/files.ts";
import type { SimClock } from "./clock.ts";

const SECTOR = 512;

interface Write {
  readonly at: number;
  readonly bytes: Buffer;
}

/** A file's content, apart from its names. */
class Inode {
  durable: Buffer = Buffer.alloc(0);
  now: Buffer = Buffer.alloc(0);
  unsynced: Write[] = [];
}

type NameChange = (names: Map<string, Inode>) => void;

/**
 * May throw instead of letting an operation happen. `bytes` is the size of a write; the fault may let a part of it through.
 */
export type Fault = (
  op: "write" | "sync" | "create" | "rename" | "syncDir",
  path: string,
  bytes?: number,
) => Error | undefined;

export class SimDrive {
  private names = new Map<string, Inode>();
  private durableNames = new Map<string, Inode>();
  private changes: { readonly dir: string; readonly change: NameChange }[] = [];
  private owner: object | undefined;
  fault: Fault | undefined;

  constructor(private readonly clock: SimClock) {}

  /** Turns the power off and on again: a process that held files of the drive gets no further answer. */
  cut(): void {
    this.owner = undefined;
    this.clock.forget();
    const inodes = new Set([...this.names.values(), ...this.durableNames.values()]);
    for (const inode of inodes) this.cutInode(inode);
    // Some file systems keep the order of name changes, some do not.
    const ordered = this.clock.chance(0.5);
    const kept = ordered ? this.clock.below(this.changes.length + 1) : this.changes.length;
    for (const { change } of this.changes.slice(0, kept)) {
      if (ordered || this.clock.chance(0.5)) change(this.durableNames);
    }
    this.changes = [];
    this.names = new Map(this.durableNames);
  }

  private cutInode(inode: Inode): void {
    const { clock } = this;
    const writes = inode.unsynced;
    // Usually each sector survives by chance; sometimes all written sectors do, or none.
    const mood = clock.random();
    const keep = mood < 0.2 ? 0 : mood < 0.4 ? 1 : clock.random();
    for (const write of shuffled(writes, clock)) {
      for (let from = 0; from < write.bytes.length; ) {
        const to = Math.min(write.bytes.length, from + SECTOR - ((write.at + from) % SECTOR));
        if (clock.random() < keep)
          inode.durable = overwritten(inode.durable, write.at + from, write.bytes.subarray(from, to));
        from = to;
      }
    }
    inode.unsynced = [];
    inode.now = Buffer.from(inode.durable);
  }

  /** The view that a process has of the drive until the next cut. */
  files(): Files {
    const { clock } = this;
    const life = {};
    const dir = (path: string): string => path.slice(0, path.lastIndexOf("/"));
    return {
      makeDir: () => clock.io(() => undefined),
      names: (of) =>
        clock.io(() =>
          [...this.names.keys()].filter((path) => dir(path) === of).map((path) => path.slice(of.length + 1)),
        ),
      open: (path, how) => clock.io(() => this.open(path, how)),
      rename: (from, to) => {
        this.check("rename", from);
        const inode = this.find(from);
        this.change(dir(from), (names) => {
          if (names.get(from) === inode) names.delete(from);
          names.set(to, inode);
        });
        return clock.io(() => undefined);
      },
      remove: (path) =>
        clock.io(() => {
          const inode = this.find(path);
          this.change(dir(path), (names) => {
            if (names.get(path) === inode) names.delete(path);
          });
        }),
      syncDir: (of) => {
        const count = this.changes.length;
        return clock.io(() => {
          this.check("syncDir", of);
          this.syncNames(of, count);
        });
      },
      lock: async (): Promise<Release> => {
        if (this.owner !== undefined) throw new Error("the simulated directory is locked");
        this.owner = life;
        return async () => {
          if (this.owner === life) this.owner = undefined;
        };
      },
    };
  }

  private open(path: string, how: Opening): File {
    if (how === "create") {
      this.check("create", path);
      const inode = new Inode();
      this.change(path.slice(0, path.lastIndexOf("/")), (names) => names.set(path, inode));
    }
    const file = new SimFile(this.find(path), path, this.clock, (op, bytes) => this.fault?.(op, path, bytes));
    return how === "durable" ? flushing(file) : file;
  }

  private check(op: "create" | "rename" | "syncDir", path: string): void {
    const fault = this.fault?.(op, path);
    if (fault !== undefined) throw fault;
  }

  private find(path: string): Inode {
    const inode = this.names.get(path);
    if (inode === undefined) throw Object.assign(new Error(`no such file: ${path}`), { code: "ENOENT" });
    return inode;
  }

  private change(dir: string, change: NameChange): void {
    change(this.names);
    this.changes.push({ dir, change });
  }

  /** Makes the changes of a directory durable that preceded the call. */
  private syncNames(dir: string, count: number): void {
    const rest: typeof this.changes = [];
    for (const [i, one] of this.changes.entries()) {
      if (i < count && one.dir === dir) one.change(this.durableNames);
      else rest.push(one);
    }
    this.changes = rest;
  }

  /** For tests that damage the content of the drive. */
  content(path: string): Buffer {
    return this.find(path).durable;
  }

  paths(): string[] {
    return [...this.names.keys()];
  }
}

class SimFile implements File {
  constructor(
    private readonly inode: Inode,
    readonly path: string,
    private readonly clock: SimClock,
    private readonly fault: (op: "write" | "sync", bytes?: number) => Error | undefined,
  ) {}

  size(): Promise<number> {
    return this.clock.io(() => this.inode.now.length);
  }

  read(into: Uint8Array, at: number): Promise<number> {
    return this.clock.io(() => {
      const bytes = this.inode.now.subarray(at, at + into.length);
      into.set(bytes);
      return bytes.length;
    });
  }

  /** The volatile layer has the bytes at once; a fault may leave any part of them there. */
  write(bytes: Uint8Array, at: number): Promise<void> {
    const fault = this.fault("write", bytes.length);
    const copy = Buffer.from(bytes);
    const all = fault === undefined || this.clock.chance(0.3);
    const written = all ? copy : copy.subarray(0, this.clock.below(copy.length + 1));
    if (written.length > 0) {
      this.inode.now = overwritten(this.inode.now, at, written);
      this.inode.unsynced.push({ at, bytes: written });
    }
    return this.clock.io(() => {
      if (fault !== undefined) throw fault;
    });
  }

  /** Bytes written before the call are durable when it returns. */
  sync(): Promise<void> {
    const fault = this.fault("sync");
    const { inode } = this;
    const count = inode.unsynced.length;
    return this.clock.io(() => {
      if (fault !== undefined) throw fault;
      for (const { at, bytes } of inode.unsynced.splice(0, count))
        inode.durable = overwritten(inode.durable, at, bytes);
    });
  }

  close(): Promise<void> {
    return this.clock.io(() => undefined);
  }
}

function overwritten(content: Buffer, at: number, bytes: Uint8Array): Buffer {
  const grown = at + bytes.length > content.length ? Buffer.concat([content], at + bytes.length) : content;
  grown.set(bytes, at);
  return grown;
}

function shuffled<T>(items: readonly T[], clock: SimClock): T[] {
  const left = [...items];
  const order: T[] = [];
  while (left.length > 0) order.push(...left.splice(clock.below(left.length), 1));
  return order;
}
