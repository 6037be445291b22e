/**
 * Waits until the replicas of a master have everything that the master had at the time of the call. Operations call it before
 * they release an answer. One barrier is in flight per master and serves every operation that arrived during the one before.
 *
 * A barrier is a small write followed by WAIT, on a connection of its own: WAIT blocks its connection, and without an earlier
 * write on that connection it proves nothing.
 *
 * Invariants: only a barrier of the same history proves an answer given under that history.
 */
import { nextTurn, type World } from "../../core/world.ts";
import type { Library } from "./functions.ts";
import type { Keys } from "./keys.ts";
import type { RedisMeter } from "./meter.ts";
import type { RedisNode } from "./node.ts";
import type { RedisLimits } from "./options.ts";
import type { Topology } from "./topology.ts";

interface Waiter {
  readonly bucket: number;
  readonly history: string;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

interface Gate {
  readonly name: string;
  node: RedisNode | undefined;
  isRunning: boolean;
  waiters: Waiter[];
}

export class Barriers {
  private readonly gates = new Map<string, Gate>();

  constructor(
    private readonly topology: Topology,
    private readonly keys: Keys,
    private readonly world: World,
    private readonly limits: RedisLimits,
    private readonly library: Library,
    private readonly meter: RedisMeter,
  ) {}

  pass(name: string, bucket: number, history: string): Promise<void> {
    const gate = this.gateOf(name);
    return new Promise((resolve, reject) => {
      gate.waiters.push({ bucket, history, resolve, reject });
      if (!gate.isRunning) void this.run(gate);
    });
  }

  close(): void {
    for (const { node } of this.gates.values()) node?.close();
  }

  private gateOf(name: string): Gate {
    const found = this.gates.get(name);
    if (found !== undefined) return found;
    const gate: Gate = { name, node: undefined, isRunning: false, waiters: [] };
    this.gates.set(name, gate);
    return gate;
  }

  private async run(gate: Gate): Promise<void> {
    gate.isRunning = true;
    // All answers of this turn join the first barrier.
    await nextTurn(this.world);
    while (gate.waiters.length > 0) {
      const waiters = gate.waiters;
      gate.waiters = [];
      try {
        const [history, replicas] = await this.barrier(gate, waiters[0]!.bucket);
        for (const waiter of waiters) settle(waiter, history, replicas, this.limits.waitReplicas);
      } catch (error) {
        for (const { reject } of waiters) reject(error as Error);
      }
    }
    gate.isRunning = false;
  }

  /** WAIT must answer before the connection is given up, because its answer says how many replicas were missing. */
  private async barrier(gate: Gate, bucket: number): Promise<[string, number]> {
    if (gate.node === undefined || gate.node.over) gate.node = this.topology.connectApart(gate.name);
    const { node } = gate;
    const { commandMs, deadlineMs } = this.limits;
    const waitMs = String(Math.max(1, Math.floor(Math.min(commandMs, deadlineMs) / 2)));
    const startedAt = this.world.monotonicMs();
    const [history, replicas] = await Promise.all([
      node.ask(["FCALL", this.library.functions.barrier, "1", this.keys.barrier(bucket)]),
      node.ask(["WAIT", String(this.limits.waitReplicas), waitMs]),
    ]);
    this.meter.barrierSeconds.add((this.world.monotonicMs() - startedAt) / 1_000);
    return [String(history), Number(replicas)];
  }
}

function settle({ history, resolve, reject }: Waiter, now: string, replicas: number, wanted: number): void {
  if (history !== now) reject(new Error("another master has taken over"));
  else if (replicas < wanted) reject(new Error(`${replicas} of ${wanted} replicas answer`));
  else resolve();
}
