/**
 * Keeps the slots that a cluster's client knows current. `topology.ts` starts one per cluster. It asks one master after the other
 * for the slots and compares them, because a refresh by the client opens a connection and compares all 16,384 slots as text:
 * tens of milliseconds of a processor, every second of an idle node.
 *
 * Invariants: the client refreshes at the first look that differs or fails. Refreshes have a minimum distance, because during a
 * failover every failing operation asks for one.
 */
import type { Cancel, World } from "../../core/world.ts";
import type { RedisNode } from "./node.ts";

/** So many refreshes fit between two looks. An operation that keeps failing makes its attempts about as far apart. */
const REFRESHES_PER_LOOK = 4;

/** One range of `CLUSTER SLOTS`: its first and last slot, its master, its replicas. */
type Range = readonly [from: number, to: number, ...nodes: (readonly [host: Buffer | null, port: number])[]];

export interface SlotsWatchParts {
  /** As the client knows them: for each slot the names of its master and its replicas. */
  readonly known: () => readonly (readonly string[] | undefined)[];
  /** Makes the client ask for the slots itself. */
  readonly refresh: () => void;
  readonly masters: () => readonly string[];
  readonly connect: (name: string) => Pick<RedisNode, "ask">;
  /** The slots that matter: those of the buckets. */
  readonly slots: readonly number[];
  readonly everyMs: number;
  readonly world: World;
}

export class SlotsWatch {
  private looking: Cancel;
  private looks = 0;
  private refreshedMs = Number.NEGATIVE_INFINITY;
  private waiting: Cancel | undefined;
  private isClosed = false;

  constructor(private readonly parts: SlotsWatchParts) {
    this.looking = this.lookLater();
  }

  /** Refreshes now, or at the minimum distance after the refresh before. */
  refresh(): void {
    if (this.isClosed || this.waiting !== undefined) return;
    const { world, everyMs } = this.parts;
    const inMs = this.refreshedMs + everyMs / REFRESHES_PER_LOOK - world.monotonicMs();
    if (inMs <= 0) this.refreshNow();
    else this.waiting = world.after(inMs, () => this.refreshNow());
  }

  close(): void {
    this.isClosed = true;
    this.looking();
    this.waiting?.();
  }

  private refreshNow(): void {
    this.waiting = undefined;
    this.refreshedMs = this.parts.world.monotonicMs();
    this.parts.refresh();
  }

  private lookLater(): Cancel {
    return this.parts.world.after(this.parts.everyMs, () => void this.look());
  }

  private async look(): Promise<void> {
    const isCurrent = await this.compare().catch(() => false);
    if (this.isClosed) return;
    if (!isCurrent) this.refresh();
    this.looking = this.lookLater();
  }

  /** Rejects if the master does not answer. False if no master is known. */
  private async compare(): Promise<boolean> {
    const { masters, connect, known, slots } = this.parts;
    const names = masters();
    if (names.length === 0) return false;
    const master = connect(names[this.looks++ % names.length]!);
    const ranges = (await master.ask(["CLUSTER", "SLOTS"])) as readonly Range[];
    const now = known();
    return slots.every((slot) => {
      const [, , ...nodes] = ranges.find(([from, to]) => from <= slot && slot <= to) ?? [];
      return areSame(
        nodes.filter(([host]) => host?.length).map(([host, port]) => `${host}:${port}`),
        now[slot] ?? [],
      );
    });
  }
}

/** The same master, and the same replicas in any order: every node lists them in an order of its own. */
function areSame([master, ...replicas]: readonly string[], [otherMaster, ...others]: readonly string[]): boolean {
  return (
    master === otherMaster && replicas.length === others.length && replicas.every((replica) => others.includes(replica))
  );
}
