/**
 * The way of the engine to Redis: a function of the library, or a plain command, on the master of a bucket.
 *
 * Invariants: every call is idempotent, because operations repeat it. Every call is answered by the deadline.
 */
import { Deadlines } from "../../core/deadlines.ts";
import type { World } from "../../core/world.ts";
import type { EngineError } from "../contract.ts";
import { Barriers } from "./barriers.ts";
import { ClusterClock } from "./cluster-clock.ts";
import { type FunctionName, type Library, libraryOf } from "./functions.ts";
import type { Keys } from "./keys.ts";
import type { RedisMeter } from "./meter.ts";
import { Operation, type OperationKind, type OperationParts, type Reply } from "./operation.ts";
import type { RedisLimits } from "./options.ts";
import { Pulse } from "./pulse.ts";
import type { Argument } from "./resp.ts";
import type { Topology } from "./topology.ts";

export type { Reply };

export class Calls {
  private readonly parts: OperationParts;
  private readonly library: Library;
  readonly clock: ClusterClock;

  constructor(topology: Topology, keys: Keys, world: World, limits: RedisLimits, meter: RedisMeter) {
    this.library = libraryOf(limits);
    this.clock = new ClusterClock(world, limits.clockMs);
    this.parts = {
      topology,
      world,
      limits,
      meter,
      library: this.library,
      clock: this.clock,
      deadlines: new Deadlines(world, limits.deadlineMs),
      barriers: new Barriers(topology, keys, world, limits, this.library, meter),
      pulse: new Pulse(topology, world, limits),
    };
  }

  health(): EngineError | undefined {
    return this.parts.pulse.health();
  }

  /** Calls a function whose answer counts only once the replicas have it. */
  run(name: FunctionName, bucket: number, keys: readonly string[], args: readonly Argument[]): Promise<Reply> {
    return this.start(bucket, this.functionCall(name, keys, args), "durable", false) as Promise<Reply>;
  }

  /** Like `run`, for an answer that is all ASCII. */
  runText(name: FunctionName, bucket: number, keys: readonly string[], args: readonly Argument[]): Promise<Reply> {
    return this.start(bucket, this.functionCall(name, keys, args), "durable", true) as Promise<Reply>;
  }

  /** Calls a function whose answer may be wrong without harm. */
  runPassing(name: FunctionName, bucket: number, keys: readonly string[], args: readonly Argument[]): Promise<Reply> {
    return this.start(bucket, this.functionCall(name, keys, args), "passing", false) as Promise<Reply>;
  }

  /** A plain command on a key of this bucket. */
  command(bucket: number, args: readonly Argument[]): Promise<unknown> {
    return this.start(bucket, args, "plain", false);
  }

  close(): void {
    this.parts.barriers.close();
    this.parts.deadlines.stop();
  }

  private functionCall(name: FunctionName, keys: readonly string[], args: readonly Argument[]): Argument[] {
    const command: Argument[] = ["FCALL", this.library.functions[name], String(keys.length)];
    for (const key of keys) command.push(key);
    // One by one, because a large commit has more of them than a call may have arguments.
    for (const arg of args) command.push(arg);
    return command;
  }

  private start(bucket: number, command: readonly Argument[], kind: OperationKind, isText: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      new Operation(this.parts, bucket, command, kind, isText, resolve, reject).start();
    });
  }
}
