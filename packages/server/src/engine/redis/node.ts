/**
 * One master, as the engine talks to it: calls of one turn leave as one pipeline, and a call that is not answered in time
 * takes the connection with it. `topology.ts` opens one per master; `calls.ts` sends through it and tries again.
 *
 * What must stay true: nothing is sent twice by itself. Whether a failed call was carried out is not known here; who calls
 * sees to it that a repetition does no harm.
 */
import { Command, Redis, type RedisOptions } from "ioredis";
import type { World } from "../../core/world.ts";
import { EngineError } from "../contract.ts";
import type { RedisLimits } from "./options.ts";

export type Argument = string | Buffer;

type Results = readonly (readonly [Error | null, unknown])[];

interface Call {
  readonly args: readonly Argument[];
  readonly bytes: number;
  /** For a slot that is on its way to this node. */
  readonly asking: boolean;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** What may be unanswered on one connection, and what may wait behind it. */
const MAX_FLYING_BYTES = 32 * 1024 * 1024;
const MAX_WAITING_BYTES = 256 * 1024 * 1024;

export class RedisNode {
  private readonly redis: Redis;
  private readonly waiting: Call[] = [];
  private waitingBytes = 0;
  private flyingBytes = 0;
  private isOver = false;

  constructor(
    readonly name: string,
    private readonly world: World,
    private readonly limits: Pick<RedisLimits, "commandMs" | "connectMs">,
    access: RedisOptions,
  ) {
    this.redis = new Redis({
      ...access,
      connectTimeout: limits.connectMs,
      retryStrategy: () => null,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      enableReadyCheck: false,
    });
    // Every call in flight hears of it by itself.
    this.redis.on("error", () => {});
    this.redis.on("end", () => {
      this.isOver = true;
    });
  }

  /** No more use: somebody else must be opened in its place. */
  get over(): boolean {
    return this.isOver;
  }

  call(args: readonly Argument[], asking = false): Promise<unknown> {
    let bytes = 0;
    for (const arg of args) bytes += arg.length;
    if (this.waitingBytes + bytes > MAX_WAITING_BYTES && this.waiting.length > 0) {
      return Promise.reject(new EngineError("overloaded", `too much waits to be sent to ${this.name}`));
    }
    return new Promise((resolve, reject) => {
      this.waiting.push({ args, bytes, asking, resolve, reject });
      this.waitingBytes += bytes;
      if (this.waiting.length === 1) queueMicrotask(() => this.flush());
    });
  }

  close(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.redis.disconnect();
    // It would wait for a node that hangs, and the system would go on sending to one that is cut off.
    (this.redis as unknown as { stream?: { destroy(): void } }).stream?.destroy();
    this.refuse(this.waiting.splice(0), new Error(`the connection to ${this.name} was given up`));
  }

  /** Sends what waits, as far as there is room: what is not answered in time is sent again, so it must not be too much. */
  private flush(): void {
    const calls = this.takeFitting();
    if (calls.length === 0) return;
    let bytes = 0;
    for (const call of calls) bytes += call.bytes;
    this.flyingBytes += bytes;
    const { commandMs } = this.limits;
    const cancel = this.world.after(commandMs, () => {
      this.close();
      this.refuse(calls, new Error(`${this.name} does not answer within ${commandMs} ms`));
    });
    this.send(calls)
      .then(
        (replies) => {
          let at = 0;
          for (const { asking, resolve, reject } of calls) {
            if (asking) at++;
            const [error, reply] = replies[at++]!;
            if (error === null) resolve(reply);
            else reject(error);
          }
        },
        (error: Error) => this.refuse(calls, error),
      )
      .finally(() => {
        cancel();
        this.flyingBytes -= bytes;
        this.flush();
      });
  }

  private takeFitting(): Call[] {
    let count = 0;
    let bytes = this.flyingBytes;
    for (const call of this.waiting) {
      if (bytes > 0 && bytes + call.bytes > MAX_FLYING_BYTES) break;
      bytes += call.bytes;
      count++;
    }
    this.waitingBytes -= bytes - this.flyingBytes;
    return this.waiting.splice(0, count);
  }

  private refuse(calls: readonly Call[], error: Error): void {
    for (const { reject } of calls) reject(error);
  }

  /** Commands are made by hand, because a call cannot take as many arguments as a large commit has. */
  private async send(calls: readonly Call[]): Promise<Results> {
    // What every pipeline has, though its type does not say so.
    const pipeline = this.redis.pipeline() as unknown as {
      sendCommand(command: Command): void;
      exec(): Promise<Results>;
    };
    for (const { args, asking } of calls) {
      if (asking) pipeline.sendCommand(new Command("ASKING"));
      // Without an encoding, replies come as they are: bytes.
      pipeline.sendCommand(new Command(String(args[0]), args.slice(1)));
    }
    return pipeline.exec();
  }
}
