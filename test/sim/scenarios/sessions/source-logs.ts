/**
 * The logs of all sources as they were committed, trimmed and deleted parts included. The checks compare inboxes with them.
 *
 * Invariants: it listens to commits below the server; the effect of an unanswered commit is read back before anything can
 * trim it.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Effect, Engine, Entity, LoggedMessage } from "../../../../packages/server/src/engine/contract.ts";
import { entity } from "../../../../packages/server/src/engine/contract.ts";
import type { SimWorld } from "../../world.ts";

export interface Entry {
  readonly id: string;
  readonly position: Position;
}

export class SourceLogs {
  private readonly byPath = new Map<string, Map<string, Entry>>();
  private readonly tails = new Map<string, Position>();
  private readonly heard = new Set<Engine>();

  constructor(
    private readonly world: SimWorld,
    paths: readonly string[],
  ) {
    for (const path of paths) this.byPath.set(path, new Map());
  }

  /** In order. */
  of(path: string): Entry[] {
    const entries = [...this.byPath.get(path)!.values()];
    return entries.sort((a, b) => comparePositions(a.position, b.position));
  }

  async opened(engine: Engine): Promise<void> {
    if (!this.heard.has(engine)) this.listen(engine);
    for (const path of this.byPath.keys()) await this.read(engine, path).catch(() => {});
  }

  private listen(engine: Engine): void {
    this.heard.add(engine);
    const commit = engine.commit.bind(engine);
    engine.commit = async (e, at, effects) => {
      if (e.kind !== "stream" || !effects.some(({ op }) => op === "append")) return commit(e, at, effects);
      try {
        const result = await commit(e, at, effects);
        if (result.kind === "done") this.committed(engine, e, effects, result.head.last);
        return result;
      } catch (fault) {
        void this.readSoon(engine, e.id);
        throw fault;
      }
    };
  }

  private committed(engine: Engine, e: Entity, effects: readonly Effect[], last: Position): void {
    const messages = effects.flatMap((effect) => (effect.op === "append" ? effect.messages : []));
    if (effects.at(-1)!.op === "destroy") return;
    const first = last.seq - messages.length + 1;
    const before = this.tails.get(e.id);
    for (const [i, { payload }] of messages.entries()) {
      this.add(e.id, { payload, at: 0, position: { generation: last.generation, seq: first + i } });
    }
    const hasHole = before?.generation === last.generation ? before.seq + 1 !== first : first !== 1;
    if (hasHole) void this.readSoon(engine, e.id, before);
  }

  private add(path: string, { position, payload }: LoggedMessage): void {
    const text = Buffer.from(payload).toString().replace(/^"/, "");
    const id = text.slice(0, text.indexOf("|"));
    this.byPath.get(path)!.set(`${position.generation}/${position.seq}`, { id, position });
    const tail = this.tails.get(path);
    if (tail === undefined || comparePositions(tail, position) < 0) this.tails.set(path, position);
  }

  private async readSoon(engine: Engine, path: string, after?: Position): Promise<void> {
    for (let attempt = 0; attempt < 20; attempt++) {
      const isRead = await this.read(engine, path, after).then(
        () => true,
        () => false,
      );
      if (isRead) break;
      await this.world.sleep(1);
    }
  }

  private async read(engine: Engine, path: string, after?: Position): Promise<void> {
    let at = after ?? this.tails.get(path) ?? { generation: 0, seq: 0 };
    for (;;) {
      const { messages } = await engine.read(entity("default", "stream", path), at, 100_000);
      if (messages.length === 0) return;
      for (const message of messages) this.add(path, message);
      at = messages.at(-1)!.position;
    }
  }
}
