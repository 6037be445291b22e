/**
 * The holds of one group on the streams that it consumes: retention keeps what the group has not processed, up to the stream's
 * byte limit for holds. The leader process owns one; beyond the limit the client is told of the gap.
 *
 * Invariants: only streams with retention are held, at or before the durable progress. A hold outlives its leader, and is
 * released when the group is deleted. Holds move at a limited pace (`streams/paced-hold.ts`), because each move is a commit.
 */
import type { Position } from "@sluice/protocol";
import type { World } from "../core/world.ts";
import type { Entity } from "../engine/contract.ts";
import { PacedHold } from "../streams/paced-hold.ts";
import type { Streams } from "../streams/service.ts";

export interface HoldsParts {
  readonly world: World;
  readonly streams: Pick<Streams, "hold">;
  readonly report: (what: string, fault: unknown) => void;
}

/** The holder's name on a stream. */
export function holderOf({ id }: Entity): string {
  return `group:${id}`;
}

interface Held {
  readonly paced: PacedHold;
  position: Position;
}

export class GroupHolds {
  private readonly held = new Map<string, Held>();

  constructor(
    private readonly parts: HoldsParts,
    private readonly group: Entity,
  ) {}

  /** Holds the messages after a position, from now on. */
  async begin(path: string, position: Position): Promise<void> {
    const { world, streams, report } = this.parts;
    const { project } = this.group;
    const held: Held = {
      position,
      paced: new PacedHold({
        world,
        store: (at) => streams.hold(project, path, holderOf(this.group), at),
        again: () => held.paced.move(held.position, "", 0),
        report: (fault) => report(`moving the hold of ${this.group.key} on ${path} failed; it is repeated`, fault),
      }),
    };
    this.held.set(path, held);
    await held.paced.move(position, "", 0);
  }

  /** The group has processed a held stream up to here, durably. */
  moved(path: string, position: Position): void {
    const held = this.held.get(path);
    if (held === undefined) return;
    held.position = position;
    held.paced.move(position, "", 0).catch((fault) => {
      this.parts.report(`moving the hold of ${this.group.key} on ${path} failed; the next move repeats it`, fault);
    });
  }

  get paths(): readonly string[] {
    return [...this.held.keys()];
  }

  /** The group is deleted: retention may take what it held. */
  async release(paths: readonly string[]): Promise<void> {
    const { project } = this.group;
    for (const path of paths) await this.parts.streams.hold(project, path, holderOf(this.group), undefined);
  }

  /** The stream is gone, and its hold with it. */
  forget(path: string): void {
    this.held.get(path)?.paced.forget();
    this.held.delete(path);
  }

  stop(): void {
    for (const path of this.paths) this.forget(path);
  }
}
