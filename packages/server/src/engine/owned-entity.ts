/**
 * Keeps one entity owned by one node of the cluster. It claims the entity, renews the claim, notices its loss and claims
 * again. A feature that needs a single owner (a group's leader, a puller's dispatcher) starts one per entity and node.
 *
 * Invariants: `gained` and `lost` alternate, and at most one term is held. A term ends by this node's clock a margin before
 * its lease can end at the engine. One call to the engine is in flight. After a loss a new claim has a new epoch.
 */
import type { World } from "../core/world.ts";
import type { Engine, Entity, Held, Owner } from "./contract.ts";
import type { Keepers } from "./keeper.ts";
import { sameOwner } from "./ownership.ts";
import { type Ending, Term } from "./term.ts";

export interface OwnerLimits {
  /** How long a claim stands without a renewal. Another node replaces a dead owner after that. */
  readonly leaseMs: number;
  /**
   * The wait after a failed renewal and after the first refused or failed claim. For claims it doubles, up to the time between
   * renewals.
   */
  readonly retryMs: number;
}

/** Renewals per lease, so that a lease survives the loss of one. */
const RENEW_PART = 3;
/** The share of a lease that the owner leaves unused, because its clock may run slower than the engine's. */
const MARGIN_PART = 10;

export interface OwnerParts {
  readonly engine: Pick<Engine, "claim" | "release" | "now">;
  readonly keepers: Pick<Keepers, "submit">;
  readonly world: Pick<World, "now" | "after" | "random">;
  /** The name by which other nodes know this one. */
  readonly node: string;
  readonly limits: OwnerLimits;
  readonly report: (what: string, fault: unknown) => void;
}

/** The feature's callbacks. `lost` is called as soon as the term is over, even while the engine does not answer. */
export interface Owning {
  gained(term: Term): void;
  lost(term: Term, why: Ending): void;
  /** A claim has met another owner; `holder` names it. */
  refused?(holder: Held): void;
}

interface Granted {
  readonly kind: "granted";
  readonly owner: Owner;
  /** By the clock of this node. */
  readonly untilMs: number;
}

interface Failed {
  readonly kind: "failed";
}

export class OwnedEntity {
  private current: Term | undefined;
  private heldBy: Held | undefined;
  private refusals = 0;
  private isStopped = false;
  private running: Promise<void> | undefined;
  private wake: () => void = () => {};

  constructor(
    private readonly parts: OwnerParts,
    readonly entity: Entity,
    private readonly owning: Owning,
  ) {}

  /** The current term of this node, if it has one. */
  get term(): Term | undefined {
    return this.current?.isHeld() ? this.current : undefined;
  }

  /**
   * The owner that the last claim met, with its end by the engine's time. A hint. It names this node itself while the lease runs
   * of a claim whose answer was lost.
   */
  get holder(): Held | undefined {
    return this.heldBy;
  }

  start(): void {
    this.running ??= this.run();
  }

  /** Ends the term at once. Resolves when the ownership is released, so that another node need not wait for the lease to end. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.current?.end("stopped");
    this.wake();
    await this.running;
  }

  private async run(): Promise<void> {
    while (!this.isStopped) {
      const answer = await this.claim();
      if (answer.kind === "granted") await this.serve(answer);
      else await this.sleep(this.nextTryMs(answer));
    }
  }

  private async serve(granted: Granted): Promise<void> {
    // After a stop, or if the answer took longer than the lease, this node only releases the ownership.
    const isInTime = !this.isStopped && this.parts.world.now() < granted.untilMs;
    await this.release(isInTime ? await this.hold(granted) : granted.owner);
    if (!isInTime) await this.sleep(this.nextTryMs());
  }

  /** Renews until the term is over; returns the ownership, which the caller releases. */
  private async hold({ owner, untilMs }: Granted): Promise<Owner> {
    const term = new Term({ ...this.parts, entity: this.entity }, owner, untilMs, this.ended);
    this.current = term;
    this.refusals = 0;
    this.tell(() => this.owning.gained(term));
    for (let waitMs = this.renewMs(); term.isHeld(); ) {
      await this.sleep(waitMs);
      // A process that was paused for longer than its lease stops here, before it renews.
      if (!term.isHeld()) break;
      const answer = await this.claim(owner);
      if (answer.kind === "held" || (answer.kind === "granted" && !sameOwner(answer.owner, owner))) {
        term.end("replaced");
        return answer.kind === "held" ? owner : answer.owner;
      }
      if (answer.kind === "granted") term.extend(answer.untilMs);
      // A failed renewal does not back off, because the lease at stake bounds the attempts.
      waitMs = answer.kind === "granted" ? this.renewMs() : this.jitter(this.parts.limits.retryMs);
    }
    term.end("expired");
    return owner;
  }

  private readonly ended = (term: Term, why: Ending): void => {
    this.current = undefined;
    this.tell(() => this.owning.lost(term, why));
    this.wake();
  };

  private async claim(held?: Owner): Promise<Granted | Held | Failed> {
    const { engine, world, node, limits, report } = this.parts;
    const spanMs = limits.leaseMs * (1 - 1 / MARGIN_PART);
    const sentMs = world.now();
    try {
      const answer = await engine.claim(this.entity, node, limits.leaseMs, held);
      this.heldBy = answer.kind === "held" ? answer : undefined;
      if (answer.kind === "held") {
        this.tell(() => this.owning.refused?.(answer));
        return answer;
      }
      // The lease began after the claim was sent. If the clock was set back since, the time of the answer is the earlier one.
      return { kind: "granted", owner: answer, untilMs: Math.min(sentMs, world.now()) + spanMs };
    } catch (fault) {
      report(`claiming ${this.entity.key} failed; this node retries`, fault);
      return { kind: "failed" };
    }
  }

  /** An ownership that cannot be released ends with its lease. */
  private async release(owner: Owner): Promise<void> {
    const { engine, report } = this.parts;
    try {
      await engine.release(this.entity, owner);
    } catch (fault) {
      report(`releasing ${this.entity.key} failed; its lease expires by itself`, fault);
    }
  }

  /** A feature whose callback throws must not end the renewals. */
  private tell(call: () => void): void {
    try {
      call();
    } catch (fault) {
      this.parts.report(`a callback of the owner of ${this.entity.key} threw; the ownership continues`, fault);
    }
  }

  /** Spread, so that a node's many owned entities do not renew at the same moment. */
  private renewMs(): number {
    return this.jitter(this.parts.limits.leaseMs / RENEW_PART);
  }

  /** Doubles up to the time between renewals, but waits no longer than the lease of the other owner lasts. */
  private nextTryMs(answer?: Held | Failed): number {
    const { engine, limits } = this.parts;
    const backoffMs = Math.min(limits.leaseMs / RENEW_PART, limits.retryMs * 2 ** this.refusals++);
    if (answer?.kind !== "held") return this.jitter(backoffMs);
    const leftMs = Math.max(0, answer.untilMs - engine.now());
    return Math.min(this.jitter(backoffMs), leftMs + this.jitter(limits.retryMs));
  }

  private jitter(ms: number): number {
    return ms * (0.5 + this.parts.world.random() / 2);
  }

  /** Ends early when the term is over or this is stopped. */
  private sleep(ms: number): Promise<void> {
    if (this.isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.parts.world.after(ms, resolve);
      this.wake = () => {
        cancel();
        resolve();
      };
    });
  }
}
