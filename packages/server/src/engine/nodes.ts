/**
 * What engines share about nodes: ids, the bound on messages, and their listeners. `SoleNode` is the whole node part of an engine
 * that lives in one process. `memory`, `disk` and `redis` use it.
 *
 * Invariants: no two openings of an engine share an id. A listener gets a copy of the bytes, which the sender cannot change.
 */
import { hex } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import { type LiveNode, MAX_TOLD_BYTES, NODE_ALIVE_MS, type ToldListener, type Unwatch } from "./contract.ts";

/** Enough that two nodes never draw the same id. */
const ID_BYTES = 8;

/** Hexadecimal, so that an id is valid in every key and channel name. */
export function newNodeId(world: Pick<World, "randomBytes">): string {
  return hex(world.randomBytes(ID_BYTES));
}

/** Throws on a message that is too long, because no engine would ever carry it. */
export function checkTold(bytes: Uint8Array): void {
  if (bytes.length <= MAX_TOLD_BYTES) return;
  throw new RangeError(`a message to a node may have ${MAX_TOLD_BYTES} bytes at most; got ${bytes.length}`);
}

export class ToldListeners {
  private readonly all = new Set<{ readonly listener: ToldListener }>();

  add(listener: ToldListener): Unwatch {
    const entry = { listener };
    this.all.add(entry);
    return () => void this.all.delete(entry);
  }

  hear(bytes: Uint8Array, from: string): void {
    for (const entry of [...this.all]) if (this.all.has(entry)) entry.listener(bytes, from);
  }

  clear(): void {
    this.all.clear();
  }
}

/** The only node of its engine: it lists itself, and a message to any other node is lost. */
export class SoleNode {
  readonly id: string;
  private readonly listeners = new ToldListeners();

  /** `now` is the clock of its engine. */
  constructor(
    world: Pick<World, "randomBytes">,
    private readonly now: () => number,
  ) {
    this.id = newNodeId(world);
  }

  nodes(): readonly LiveNode[] {
    return [{ id: this.id, aliveUntilMs: this.now() + NODE_ALIVE_MS }];
  }

  tell(node: string, bytes: Uint8Array): void {
    checkTold(bytes);
    if (node !== this.id) return;
    const copy = new Uint8Array(bytes);
    queueMicrotask(() => this.listeners.hear(copy, this.id));
  }

  onTold(listener: ToldListener): Unwatch {
    return this.listeners.add(listener);
  }

  close(): void {
    this.listeners.clear();
  }
}
