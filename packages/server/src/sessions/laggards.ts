/**
 * The subscribers of a stream that missed a round. Each catches up from the log at its own pace, and rejoins the rounds
 * at the cursor. Owned by its source.
 *
 * Invariants: a laggard delays no other session. It is retried with backoff until it takes its copies or is gone.
 */
import type { Position } from "@sluice/protocol";
import { backoffMs } from "../core/backoff.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Copy } from "./copy.ts";
import type { FanoutLimits } from "./defaults.ts";
import { Delivery, type DeliveryParts, type Member } from "./delivery.ts";
import type { RemoveSubscriber } from "./registry-rules.ts";
import type { StreamPort } from "./stream-port.ts";

/** Laggards that failed together do not retry together. */
const RETRY_JITTER = [0.5, 1] as const;

interface Effort {
  /** Consecutive failures. */
  failures: number;
  cancel: Cancel | undefined;
  isRunning: boolean;
  /**
   * Requested while an attempt was running. The session may have subscribed again, which that attempt does not know.
   */
  isAskedFor: boolean;
}

export interface LaggardParts extends DeliveryParts {
  readonly port: StreamPort;
  readonly world: World;
  readonly limits: FanoutLimits;
}

export interface LaggardSource {
  readonly project: string;
  /** The member and its position, if it still lags. */
  lagging(session: string): Promise<{ readonly member: Member; readonly at: Position } | undefined>;
  /** The messages after a position; undefined if there are none. */
  copyAfter(at: Position): Promise<Copy | undefined>;
  /** Stores the member's position. True if it lags no more, or is gone. */
  noteProgress(member: Member, at: Position): Promise<boolean>;
  removeSubscribers(members: readonly RemoveSubscriber[]): Promise<void>;
  report(what: string, fault: unknown): void;
}

export class Laggards {
  private readonly efforts = new Map<string, Effort>();
  private running = 0;
  private readonly due: string[] = [];
  private isStopped = false;

  constructor(
    private readonly parts: LaggardParts,
    private readonly source: LaggardSource,
  ) {}

  get size(): number {
    return this.efforts.size;
  }

  /** Schedules an attempt for this session. */
  catchUp(session: string, afterMs = 0): void {
    const effort = this.efforts.get(session) ?? { failures: 0, cancel: undefined, isRunning: false, isAskedFor: false };
    this.efforts.set(session, effort);
    if (effort.isRunning) effort.isAskedFor = true;
    if (effort.isRunning || effort.cancel !== undefined || this.isStopped) return;
    effort.cancel = this.parts.world.after(afterMs, () => {
      effort.cancel = undefined;
      this.due.push(session);
      this.work();
    });
  }

  stop(): void {
    this.isStopped = true;
    for (const { cancel } of this.efforts.values()) cancel?.();
    this.efforts.clear();
  }

  private work(): void {
    while (this.running < this.parts.limits.batch && this.due.length > 0 && !this.isStopped) {
      const session = this.due.shift()!;
      const effort = this.efforts.get(session);
      if (effort === undefined || effort.isRunning) continue;
      effort.isRunning = true;
      effort.isAskedFor = false;
      this.running++;
      void this.bringUp(session, effort).then((again) => {
        this.running--;
        effort.isRunning = false;
        const afterMs = again ?? (effort.isAskedFor ? 0 : undefined);
        if (afterMs === undefined || this.isStopped) this.efforts.delete(session);
        else this.catchUp(session, afterMs);
        this.work();
      });
    }
  }

  /** Returns when to retry; undefined if nothing is left to do. */
  private async bringUp(session: string, effort: Effort): Promise<number | undefined> {
    try {
      while (!this.isStopped) {
        const found = await this.source.lagging(session);
        if (found === undefined) return undefined;
        const step = await this.step(found.member, found.at);
        if (step === "done") return undefined;
        if (step === "failed") return this.backoff(effort);
        effort.failures = 0;
      }
    } catch (fault) {
      this.source.report(`bringing session ${session} up to date failed; it is retried with backoff`, fault);
      return this.backoff(effort);
    }
    return undefined;
  }

  private async step(member: Member, at: Position): Promise<"done" | "further" | "failed"> {
    const copy = await this.source.copyAfter(at);
    if (copy === undefined) return (await this.source.noteProgress(member, at)) ? "done" : "failed";
    const delivery = new Delivery(this.parts, this.source.project, copy, [member], 1);
    await this.answered(delivery);
    const missed = delivery.missed[0]?.[1];
    switch (missed?.kind) {
      case undefined:
      // The session is further back than the registry knew. Continue from there.
      case "lagging":
        return (await this.source.noteProgress(member, missed?.at ?? delivery.latest!)) ? "done" : "further";
      case "stale":
        await this.source.removeSubscribers([{ ...member, keepsBorrowing: missed.borrows }]);
        return "done";
      default:
        return "failed";
    }
  }

  /** A slow laggard occupies no slot, because other laggards must not wait for its timeout. */
  private async answered(delivery: Delivery): Promise<void> {
    await delivery.answeredOrSlow;
    if (delivery.pending.length === 0) return delivery.all;
    this.running--;
    this.work();
    await delivery.all;
    this.running++;
  }

  private backoff(effort: Effort): number {
    const { retryMs, maxRetryMs } = this.parts.limits;
    const figures = { firstMs: retryMs, maxMs: maxRetryMs, jitter: RETRY_JITTER };
    return backoffMs(++effort.failures, figures, this.parts.world.random());
  }
}
