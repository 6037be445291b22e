/**
 * One master, as the engine talks to it: calls of one turn leave as one pipeline, and a call that is not answered in time
 * takes the connection with it. `topology.ts` opens one per master; `calls.ts` sends through it and tries again.
 *
 * What must stay true: nothing is sent twice by itself. Whether a failed call was carried out is not known here; who calls
 * sees to it that a repetition does no harm.
 */
import { Command, Redis, type RedisOptions } from "ioredis";
import type { World } from "../../core/world.ts";
import type { RedisLimits } from "./options.ts";

export type Argument = string | Buffer;

type Results = readonly (readonly [Error | null, unknown])[];

interface Call {
  readonly args: readonly Argument[];
  /** For a slot that is on its way to this node. */
  readonly asking: boolean;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class RedisNode {
  private readonly redis: Redis;
  private waiting: Call[] = [];
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
    return new Promise((resolve, reject) => {
      this.waiting.push({ args, asking, resolve, reject });
      if (this.waiting.length === 1) queueMicrotask(() => this.flush());
    });
  }

  close(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.redis.disconnect();
  }

  private flush(): void {
    const calls = this.waiting;
    this.waiting = [];
    const refuse = (error: Error) => {
      for (const { reject } of calls) reject(error);
    };
    const { commandMs } = this.limits;
    const cancel = this.world.after(commandMs, () => {
      this.close();
      // Closing takes its time with a node that hangs; whoever called need not wait for that.
      refuse(new Error(`${this.name} does not answer within ${commandMs} ms`));
    });
    this.send(calls)
      .then((replies) => {
        let at = 0;
        for (const { asking, resolve, reject } of calls) {
          if (asking) at++;
          const [error, reply] = replies[at++]!;
          if (error === null) resolve(reply);
          else reject(error);
        }
      }, refuse)
      .finally(cancel);
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
