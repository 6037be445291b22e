/**
 * Hints to other nodes that streams were created or deleted, so that their leaders need not wait for the next listing. The
 * feature passes the events of this node on to it.
 *
 * Invariants: a hint may be lost; listings find what it told. A server without other nodes sends none. Hints of a moment share a
 * message, and no message is larger than `tell` takes.
 */
import { utf8 } from "../core/bytes.ts";
import type { Cancel, World } from "../core/world.ts";
import { type Engine, MAX_TOLD_BYTES, NODE_RENEW_MS, type Unwatch } from "../engine/contract.ts";
import { readTold } from "../engine/told.ts";

export interface Hint {
  readonly kind: "created" | "deleted";
  readonly project: string;
  readonly path: string;
}

export interface HintParts {
  readonly engine: Pick<Engine, "node" | "nodes" | "tell" | "onTold">;
  readonly world: Pick<World, "after" | "monotonicMs">;
  readonly hintMs: number;
  hear(hint: Hint): void;
}

/** Beyond these the other nodes wait for their listing. */
const MAX_HINTS = 10_000;

export class Hints {
  private waiting: Hint[] = [];
  private timer: Cancel | undefined;
  private nodes: readonly string[] = [];
  private nodesAtMs = Number.NEGATIVE_INFINITY;
  private unlisten: Unwatch = () => {};

  constructor(private readonly parts: HintParts) {}

  start(): void {
    this.unlisten = this.parts.engine.onTold((bytes) => {
      for (const hint of read(bytes)) this.parts.hear(hint);
    });
  }

  stop(): void {
    this.unlisten();
    this.timer?.();
  }

  send(hint: Hint): void {
    if (this.waiting.length < MAX_HINTS) this.waiting.push(hint);
    this.timer ??= this.parts.world.after(this.parts.hintMs, () => {
      this.timer = undefined;
      const { waiting } = this;
      this.waiting = [];
      this.tell(waiting).catch(() => {
        // The store does not say which nodes there are. Their listings will find the streams.
      });
    });
  }

  private async tell(hints: readonly Hint[]): Promise<void> {
    const { engine } = this.parts;
    const nodes = await this.otherNodes();
    if (nodes.length === 0) return;
    for (const bytes of messages(hints)) for (const node of nodes) engine.tell(node, bytes);
  }

  private async otherNodes(): Promise<readonly string[]> {
    const { engine, world } = this.parts;
    const now = world.monotonicMs();
    if (now - this.nodesAtMs < NODE_RENEW_MS) return this.nodes;
    this.nodesAtMs = now;
    this.nodes = (await engine.nodes()).map(({ id }) => id).filter((id) => id !== engine.node);
    return this.nodes;
  }
}

function* messages(hints: readonly Hint[]): Iterable<Uint8Array> {
  const bytes = utf8(JSON.stringify({ hints }));
  if (bytes.length <= MAX_TOLD_BYTES) yield bytes;
  else if (hints.length > 1) {
    const half = hints.length >> 1;
    yield* messages(hints.slice(0, half));
    yield* messages(hints.slice(half));
  }
}

function read(bytes: Uint8Array): readonly Hint[] {
  const hints = readTold<{ readonly hints: unknown }>(bytes, '"hints":')?.hints;
  return Array.isArray(hints) ? hints : [];
}
