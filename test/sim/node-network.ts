/**
 * What the nodes of a simulated run know of each other, and the network between them: messages are delayed, reordered,
 * repeated and lost; pairs of nodes are partitioned for a while. storage.ts opens one per run.
 *
 * Invariants: it does what `engine/contract.ts` says of `nodes` and `tell`, and no more: a dead node is listed until its
 * record ends, a living node is sometimes missing, and a dead process receives nothing.
 */
import type { Cancel } from "../../packages/server/src/core/world.ts";
import {
  type LiveNode,
  NODE_ALIVE_MS,
  NODE_RENEW_MS,
  type ToldListener,
} from "../../packages/server/src/engine/contract.ts";
import { checkTold, newNodeId, ToldListeners } from "../../packages/server/src/engine/nodes.ts";
import type { Random } from "./random.ts";
import type { Process, SimWorld } from "./world.ts";

/** How the network between nodes behaves during one run, drawn once. */
export interface NodeWeather {
  readonly maxMs: number;
  /** The share of messages that take up to `stallMs` instead. */
  readonly stalls: number;
  readonly stallMs: number;
  readonly lost: number;
  readonly doubled: number;
  /** The share of the time in which two nodes are partitioned, and how long a partition lasts at most. */
  readonly cuts: number;
  readonly cutMs: number;
  /** The chance that another node is missing from a list, because it did not reach the store. */
  readonly lapses: number;
}

const CALM: NodeWeather = {
  maxMs: 1,
  stalls: 0,
  stallMs: 0,
  lost: 0,
  doubled: 0,
  cuts: 0,
  cutMs: 0,
  lapses: 0,
};

export function drawNodeWeather(random: Random): NodeWeather {
  return {
    maxMs: random.pick([0, 3, 30]),
    stalls: random.pick([0, 0.02, 0.1]),
    stallMs: random.pick([100, 4_000]),
    lost: random.pick([0, 0, 0.02, 0.2]),
    doubled: random.pick([0, 0.05, 0.3]),
    cuts: random.pick([0, 0, 0.1, 0.5]),
    cutMs: random.pick([100, 10_000]),
    lapses: random.pick([0, 0, 0.05]),
  };
}

/** Whether two nodes are partitioned, and until when that holds. */
interface Link {
  readonly isCut: boolean;
  readonly untilMs: number;
}

export class NodeNetwork {
  private readonly seats = new Map<string, SimNode>();
  private readonly links = new Map<string, Link>();

  constructor(
    private readonly world: Pick<SimWorld, "now" | "log">,
    private readonly random: Random,
    private weather: NodeWeather = drawNodeWeather(random),
  ) {}

  calm(): void {
    this.weather = CALM;
    this.links.clear();
  }

  /** Makes the process a node, until it closes or dies. */
  join(process: Process): SimNode {
    const randomBytes = (count: number) => Uint8Array.from({ length: count }, () => this.random.below(256));
    const node = new SimNode(newNodeId({ randomBytes }), this, process);
    this.seats.set(node.id, node);
    return node;
  }

  leave(node: SimNode): void {
    this.seats.delete(node.id);
  }

  nodesSeenBy(id: string): LiveNode[] {
    const now = this.world.now();
    const found: LiveNode[] = [];
    for (const node of [...this.seats.values()]) {
      if (node.aliveUntilMs <= now) this.leave(node);
      else if (node.id === id || !this.random.chance(this.weather.lapses)) {
        found.push({ id: node.id, aliveUntilMs: node.aliveUntilMs });
      }
    }
    return found;
  }

  carry(from: string, to: string, bytes: Uint8Array): void {
    const { lost, doubled } = this.weather;
    const copies = this.random.chance(doubled) ? 2 : 1;
    for (let i = 0; i < copies; i++) {
      const isLost = this.isCut(from, to) || this.random.chance(lost);
      if (!isLost) this.seats.get(to)?.arriveIn(this.delayMs(), bytes, from);
      else this.world.log?.(`  lost from ${from} to ${to}`);
    }
  }

  private delayMs(): number {
    const { maxMs, stalls, stallMs } = this.weather;
    return this.random.between(0, this.random.chance(stalls) ? stallMs : maxMs);
  }

  private isCut(one: string, other: string): boolean {
    if (one === other) return false;
    const pair = [one, other].sort().join();
    const now = this.world.now();
    const found = this.links.get(pair);
    if (found !== undefined && now < found.untilMs) return found.isCut;
    const { cuts, cutMs } = this.weather;
    const link = { isCut: this.random.chance(cuts), untilMs: now + this.random.between(0, cutMs) };
    this.links.set(pair, link);
    return link.isCut;
  }
}

/** One life of a node. */
export class SimNode {
  private readonly listeners = new ToldListeners();
  private readonly openedMs: number;
  private endedMs: number | undefined;

  constructor(
    readonly id: string,
    private readonly network: NodeNetwork,
    private readonly process: Process,
  ) {
    this.openedMs = process.now();
    process.onEnd(() => {
      this.endedMs ??= process.now();
    });
  }

  /** It renews its record at every interval of its life, and not after that. */
  get aliveUntilMs(): number {
    const livedMs = (this.endedMs ?? this.process.now()) - this.openedMs;
    return this.openedMs + livedMs - (livedMs % NODE_RENEW_MS) + NODE_ALIVE_MS;
  }

  nodes(): LiveNode[] {
    return this.network.nodesSeenBy(this.id);
  }

  tell(node: string, bytes: Uint8Array): void {
    checkTold(bytes);
    this.network.carry(this.id, node, new Uint8Array(bytes));
  }

  onTold(listener: ToldListener): Cancel {
    return this.listeners.add(listener);
  }

  arriveIn(delayMs: number, bytes: Uint8Array, from: string): void {
    this.process.schedule(`told by ${from}`, delayMs, () => this.listeners.hear(bytes, from));
  }

  close(): void {
    this.listeners.clear();
    this.network.leave(this);
  }
}
