/**
 * One operation on the master of a bucket. It survives a lost connection, a failover, a moved slot, a missing library and another
 * node's turn. `calls.ts` starts them.
 *
 * Invariants: every call is idempotent, because the operation repeats it. The caller is answered exactly once, and by the
 * deadline, whatever Redis does. An ended operation sends nothing more. If replicas are waited for, an answer counts only once
 * they have the state it rests on.
 */
import { backoffMs } from "../../core/backoff.ts";
import { Deadlined, type Deadlines } from "../../core/deadlines.ts";
import type { World } from "../../core/world.ts";
import { EngineError } from "../contract.ts";
import type { Barriers } from "./barriers.ts";
import type { ClusterClock } from "./cluster-clock.ts";
import type { Library } from "./functions.ts";
import type { RedisMeter } from "./meter.ts";
import type { Answer, RedisNode } from "./node.ts";
import type { RedisLimits } from "./options.ts";
import { isMissingLibrary, type Pulse } from "./pulse.ts";
import type { Argument } from "./resp.ts";
import type { Topology } from "./topology.ts";

/** Every reply of a function starts with its kind, the history of its master, and the master's time in microseconds. */
export type Reply = readonly [Buffer | string, Buffer | string, Buffer | string, ...unknown[]];

/** The parts that all operations of an engine share. */
export interface OperationParts {
  readonly topology: Topology;
  readonly world: World;
  readonly limits: RedisLimits;
  readonly library: Library;
  readonly deadlines: Deadlines;
  readonly barriers: Barriers;
  readonly clock: ClusterClock;
  readonly pulse: Pulse;
  readonly meter: RedisMeter;
}

/**
 * `durable`: a function whose answer must be on the replicas. `passing`: one whose wrong answer does no harm. `plain`: a plain
 * command.
 */
export type OperationKind = "durable" | "passing" | "plain";

export class Operation extends Deadlined implements Answer {
  isOver = false;
  private node: RedisNode | undefined = undefined;
  private sentMs = 0;
  /** The node that has the slot while the slot migrates. */
  private asked: string | undefined = undefined;
  private failures = 0;
  private library: "unknown" | "loading" | "loaded" = "unknown";
  private isOthersTurn = false;
  private fault: Error | undefined = undefined;

  constructor(
    private readonly parts: OperationParts,
    private readonly bucket: number,
    private readonly command: readonly Argument[],
    private readonly kind: OperationKind,
    readonly isText: boolean,
    private readonly resolve: (reply: unknown) => void,
    private readonly reject: (error: Error) => void,
  ) {
    super();
  }

  start(): void {
    this.parts.meter.open++;
    this.parts.deadlines.add(this);
    this.attempt();
  }

  private attempt(): void {
    if (this.isOver) return;
    const { topology, world } = this.parts;
    try {
      this.node = this.asked === undefined ? topology.nodeOf(this.bucket) : topology.connect(this.asked);
    } catch (fault) {
      this.fail(fault as Error);
      return;
    }
    this.sentMs = world.monotonicMs();
    this.node.call(this.command, this.asked !== undefined, this);
  }

  private attemptLater(ms: number): void {
    this.parts.world.after(ms, () => this.attempt());
  }

  done(reply: unknown): void {
    if (this.isOver) return;
    const { pulse, clock, world, limits, meter } = this.parts;
    const now = world.monotonicMs();
    pulse.answered(now);
    if (this.library === "loading") {
      this.library = "loaded";
      this.attempt();
      return;
    }
    if (this.kind === "plain") {
      this.end(reply);
      return;
    }
    const answer = reply as Reply;
    clock.learn(this.sentMs, now, Number(answer[2]) / 1_000);
    this.isOthersTurn = String(answer[0]) === "wait";
    if (this.isOthersTurn) {
      meter.turns++;
      this.attemptLater(limits.turnLookMs);
    } else if (this.kind === "durable" && limits.waitReplicas > 0 && !isNoAnswer(answer)) this.passBarrier(answer);
    else this.end(answer);
  }

  private passBarrier(answer: Reply): void {
    const { barriers, pulse } = this.parts;
    const { name } = this.node!;
    barriers.pass(name, this.bucket, String(answer[1])).then(
      () => {
        pulse.replicasAnswered(name);
        if (!this.isOver) this.end(answer);
      },
      (fault) => {
        pulse.replicasMissing(name);
        this.fail(fault);
      },
    );
  }

  fail(fault: Error): void {
    if (this.isOver) return;
    const { topology, pulse } = this.parts;
    const isMissing = isMissingLibrary(fault) && this.library === "unknown";
    const verdict = topology.isClosed ? new EngineError("unavailable", "the engine was closed") : pulse.verdict(fault);
    this.isOthersTurn = false;
    if (verdict !== undefined) this.refuse(verdict);
    else if (isMissing) this.loadLibrary();
    else this.tryAgain(fault);
  }

  private loadLibrary(): void {
    this.library = "loading";
    this.node!.call(["FUNCTION", "LOAD", "REPLACE", this.parts.library.source], false, this);
  }

  private tryAgain(fault: Error): void {
    const { topology, pulse, world, limits, meter } = this.parts;
    pulse.failed(fault);
    this.fault = fault;
    this.library = "unknown";
    this.asked = /^ASK \d+ (\S+)/.exec(fault.message)?.[1];
    if (this.asked !== undefined) {
      this.attempt();
      return;
    }
    const delayMs = backoffMs(++this.failures, { firstMs: limits.retryMs, maxMs: limits.retryMaxMs });
    // The next attempt would come at the deadline or later, so the operation fails now.
    if (world.monotonicMs() + delayMs >= this.dueMs) {
      this.expire();
      return;
    }
    meter.retries++;
    topology.refresh();
    this.attemptLater(delayMs);
  }

  expire(): void {
    const { meter, limits } = this.parts;
    meter.expired++;
    const why = this.fault?.message ?? `${this.node?.name ?? "no master"} has not answered`;
    const late = `Redis did not complete the operation within ${limits.deadlineMs} ms`;
    this.refuse(
      this.isOthersTurn
        ? new EngineError("overloaded", "other nodes won every attempt to write this entity; retry later")
        : new EngineError("unavailable", `${late}.`, `${late}: ${why}`),
    );
  }

  private end(reply: unknown): void {
    this.leave();
    this.resolve(reply);
  }

  private refuse(error: Error): void {
    this.leave();
    this.reject(error);
  }

  private leave(): void {
    this.isOver = true;
    this.parts.meter.open--;
    this.parts.deadlines.remove(this);
  }
}

/** Whether the reply only asks for another call, so that it is no answer for the caller. */
function isNoAnswer([kind]: Reply): boolean {
  return kind === "other";
}
