/**
 * The state of Redis as its answers show it: whether a fault may pass, and whether writes are accepted. Operations report to it;
 * `/ready` asks it.
 *
 * Invariants: a refusal of writes is forgotten after `refusalMs`, so that the engine tries again.
 */
import type { World } from "../../core/world.ts";
import { EngineError } from "../contract.ts";
import type { RedisLimits } from "./options.ts";
import type { Topology } from "./topology.ts";

export class Pulse {
  private lastAnswerMs: number;
  private lastFault: Error | undefined;
  /** Masters whose replicas did not confirm in time, and when that was. */
  private readonly shortOfReplicas = new Map<string, number>();
  private refusal: { readonly error: EngineError; readonly untilMs: number } | undefined;

  constructor(
    private readonly topology: Pick<Topology, "masters">,
    private readonly world: World,
    private readonly limits: Pick<RedisLimits, "deadlineMs" | "refusalMs">,
  ) {
    this.lastAnswerMs = world.monotonicMs();
  }

  /** Why writes are not accepted, as far as the last ones showed. */
  health(): EngineError | undefined {
    const now = this.world.monotonicMs();
    if (this.refusal !== undefined && now < this.refusal.untilMs) return this.refusal.error;
    const isShort = (name: string) =>
      now - (this.shortOfReplicas.get(name) ?? Number.NEGATIVE_INFINITY) < this.limits.refusalMs;
    if (this.shortOfReplicas.size > 0 && this.topology.masters().every(isShort)) {
      return new EngineError("unavailable", "no master of Redis has the replicas that commits wait for");
    }
    if (this.lastFault === undefined || now - this.lastAnswerMs <= this.limits.deadlineMs) return undefined;
    return new EngineError("unavailable", "Redis does not answer.", `Redis does not answer: ${this.lastFault.message}`);
  }

  answered(nowMs: number): void {
    this.lastAnswerMs = nowMs;
    this.lastFault = undefined;
  }

  failed(fault: Error): void {
    this.lastFault = fault;
  }

  replicasAnswered(name: string): void {
    this.shortOfReplicas.delete(name);
  }

  replicasMissing(name: string): void {
    this.shortOfReplicas.set(name, this.world.monotonicMs());
  }

  /** The error to refuse with if no retry can help; undefined if one may. */
  verdict(fault: Error): Error | undefined {
    const { message } = fault;
    if (fault instanceof EngineError) return fault.code === "unavailable" ? undefined : fault;
    if (message.startsWith("SLUICE ")) return new Error(message.slice("SLUICE ".length));
    const refusal = refusalOf(message);
    if (refusal !== undefined) {
      this.refusal = { error: refusal, untilMs: this.world.monotonicMs() + this.limits.refusalMs };
      return refusal;
    }
    if (!/^(ERR|WRONGTYPE|CROSSSLOT)/.test(message) || isMissingLibrary(fault) || /WAIT cannot/.test(message)) return;
    return new Error(`Redis: ${message}`);
  }
}

/** A flushed master, or one that is new to the cluster, lacks the library; functions survive a failover. */
export function isMissingLibrary({ message }: Error): boolean {
  return /function not found/i.test(message);
}

function refusalOf(message: string): EngineError | undefined {
  if (message.startsWith("OOM")) return new EngineError("storage-full", "Redis has no memory left for more data");
  if (message.startsWith("MISCONF")) return new EngineError("storage-failed", "Redis cannot write to its disk");
  if (!/^(NOAUTH|WRONGPASS|NOPERM)/.test(message)) return undefined;
  return new EngineError("storage-failed", "Redis refuses this server's user.", `Redis refuses this user: ${message}`);
}
