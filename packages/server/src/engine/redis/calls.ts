/**
 * Calls a function of the library on the master of a bucket, over whatever happens to that master: a lost connection, a failover, a
 * slot that moved, a library that is gone. Gives up at the deadline, as unavailable. Everything called here may
 * safely be carried out twice.
 *
 * When replicas are waited for, an answer counts only once they have everything it rests on.
 */
import type { World } from "../../core/world.ts";
import { EngineError } from "../contract.ts";
import { Barriers } from "./barriers.ts";
import { ClusterClock } from "./cluster-clock.ts";
import { FUNCTIONS, SOURCE } from "./functions.ts";
import type { Keys } from "./keys.ts";
import type { Argument, RedisNode } from "./node.ts";
import type { RedisLimits } from "./options.ts";
import type { Topology } from "./topology.ts";

/** Every reply starts with its kind, the history of the master that gave it, and its time in microseconds. */
export type Reply = readonly [Buffer, Buffer, Buffer, ...unknown[]];

const RETRY_MS = 20;
const MAX_RETRY_MS = 250;
/** How long after a write that was refused no write counts as accepted. */
const REFUSAL_MS = 5_000;

export interface CallOptions {
  /** Whether the answer must be on the replicas; so it is unless a wrong answer does no harm. */
  readonly durable?: boolean;
}

export class Calls {
  private readonly barriers: Barriers;
  readonly clock: ClusterClock;
  private lastAnswerMs: number;
  private lastFault: Error | undefined;
  /** Masters whose replicas were waited for in vain, and when that was. */
  private readonly shortOfReplicas = new Map<string, number>();
  private refusal: { readonly error: EngineError; readonly untilMs: number } | undefined;

  constructor(
    private readonly topology: Topology,
    keys: Keys,
    private readonly world: World,
    private readonly limits: RedisLimits,
  ) {
    this.barriers = new Barriers(topology, keys, world, limits);
    this.clock = new ClusterClock(world);
    this.lastAnswerMs = world.now();
  }

  /** Why writes are not accepted, as far as the last of them showed. */
  health(): EngineError | undefined {
    const now = this.world.now();
    if (this.refusal !== undefined && now < this.refusal.untilMs) return this.refusal.error;
    const isShort = (name: string) => now - (this.shortOfReplicas.get(name) ?? 0) < REFUSAL_MS;
    if (this.shortOfReplicas.size > 0 && this.topology.masters().every(isShort)) {
      return new EngineError("unavailable", "no master of Redis has the replicas that are waited for");
    }
    if (this.lastFault === undefined || now - this.lastAnswerMs <= this.limits.deadlineMs) return undefined;
    return new EngineError("unavailable", `Redis does not answer: ${this.lastFault.message}`);
  }

  async run(
    name: keyof typeof FUNCTIONS,
    bucket: number,
    keys: readonly string[],
    args: readonly Argument[],
    { durable = true }: CallOptions = {},
  ): Promise<Reply> {
    const command: Argument[] = ["FCALL", FUNCTIONS[name], String(keys.length), ...keys, ...args];
    const reply = await this.persist(bucket, async (node, asking) => {
      const sentMs = this.world.now();
      const answer = (await node.call(command, asking)) as Reply;
      this.answered();
      this.clock.learn(sentMs, Number(answer[2]) / 1_000);
      if (durable && this.limits.waitReplicas > 0) await this.passBarrier(node.name, bucket, String(answer[1]));
      return answer;
    });
    return reply;
  }

  private async passBarrier(name: string, bucket: number, history: string): Promise<void> {
    try {
      await this.barriers.pass(name, bucket, history);
      this.shortOfReplicas.delete(name);
    } catch (fault) {
      this.shortOfReplicas.set(name, this.world.now());
      throw fault;
    }
  }

  /** A plain command on a key of this bucket. */
  command(bucket: number, args: readonly Argument[]): Promise<unknown> {
    return this.persist(bucket, async (node, asking) => {
      const answer = await node.call(args, asking);
      this.answered();
      return answer;
    });
  }

  close(): void {
    this.barriers.close();
  }

  private answered(): void {
    this.lastAnswerMs = this.world.now();
    this.lastFault = undefined;
  }

  private async persist<T>(bucket: number, attempt: (node: RedisNode, asking: boolean) => Promise<T>): Promise<T> {
    const untilMs = this.world.now() + this.limits.deadlineMs;
    let asked: string | undefined;
    for (let delayMs = RETRY_MS; ; delayMs = Math.min(delayMs * 2, MAX_RETRY_MS)) {
      try {
        const node = asked === undefined ? this.topology.nodeOf(bucket) : this.topology.connect(asked);
        return await this.attempt(node, (there) => attempt(there, asked !== undefined));
      } catch (fault) {
        const error = fault as Error;
        if (this.topology.isClosed) throw new EngineError("unavailable", "the engine was closed");
        this.refuseForGood(error);
        this.lastFault = error;
        asked = /^ASK \d+ (\S+)/.exec(error.message)?.[1];
        if (asked !== undefined) continue;
        if (this.world.now() + delayMs > untilMs) throw new EngineError("unavailable", `Redis: ${error.message}`);
        this.topology.refresh();
      }
      await new Promise<void>((resolve) => void this.world.after(delayMs, resolve));
    }
  }

  /** Functions survive a failover; a flush, or a master that is new to the cluster, has none. */
  private async attempt<T>(node: RedisNode, attempt: (node: RedisNode) => Promise<T>): Promise<T> {
    try {
      return await attempt(node);
    } catch (fault) {
      if (!/function not found/i.test((fault as Error).message)) throw fault;
    }
    await node.call(["FUNCTION", "LOAD", "REPLACE", SOURCE]);
    return attempt(node);
  }

  /** What no repetition makes better. */
  private refuseForGood(fault: Error): void {
    const { message } = fault;
    if (fault instanceof EngineError && fault.code !== "unavailable") throw fault;
    if (message.startsWith("SLUICE ")) throw new Error(message.slice("SLUICE ".length));
    const refusal = refusalOf(message);
    if (refusal !== undefined) {
      this.refusal = { error: refusal, untilMs: this.world.now() + REFUSAL_MS };
      throw refusal;
    }
    if (/^(ERR|WRONGTYPE|CROSSSLOT)/.test(message) && !/function not found|WAIT cannot/i.test(message)) {
      throw new Error(`Redis: ${message}`);
    }
  }
}

function refusalOf(message: string): EngineError | undefined {
  if (message.startsWith("OOM")) return new EngineError("storage-full", "Redis has no memory left for more data");
  if (message.startsWith("MISCONF")) return new EngineError("storage-failed", "Redis cannot write to its disk");
  if (!/^(NOAUTH|WRONGPASS|NOPERM)/.test(message)) return undefined;
  return new EngineError("storage-failed", `Redis refuses us: ${message}`);
}
