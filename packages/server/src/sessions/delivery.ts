/**
 * One copy on its way to many inboxes: so many at a time, none for longer than its time. A source starts one for every round,
 * inline and queued alike.
 *
 * What must stay true: whoever is slow takes nobody's place. A call that is not back after the grace time no longer counts among
 * those under way, and the round can end without it; what becomes of it is told when it is known, or when its time is over.
 */
import type { Position } from "@sluice/protocol";
import type { Cancel, World } from "../core/world.ts";
import type { Copy } from "./copy.ts";
import type { CoreService } from "./core-service.ts";
import type { FanoutLimits } from "./limits.ts";
import type { Addressed } from "./session-rules.ts";

export interface Member extends Addressed {
  readonly session: string;
}

export type Delivered =
  | { readonly kind: "copied"; readonly at: Position }
  | { readonly kind: "lagging"; readonly at: Position }
  | { readonly kind: "stale"; readonly borrows: boolean }
  | { readonly kind: "failed"; readonly fault: unknown }
  | { readonly kind: "timeout" };

/** Those who have got no copy, and why. */
export type Missed = readonly (readonly [Member, Exclude<Delivered, { readonly kind: "copied" }>])[];

/**
 * Copies on their way, and what has become of them so far. Of those who have theirs only the number is kept: they are nearly
 * everybody, and whoever looks at a round of thousands holds up all else for as long.
 */
export interface Deliveries {
  readonly copied: number;
  readonly missed: Missed;
  /** Those of whom nothing is known yet. */
  readonly pending: readonly Member[];
  /** Somebody is there and has answered; does not resolve when nobody is. */
  readonly reached: Promise<void>;
  /** Everybody has answered or is slow. */
  readonly mostly: Promise<void>;
  /** Everybody has answered, or has had its time. */
  readonly all: Promise<void>;
}

/** Since the start of this process; for metrics. */
export class FanoutMeter {
  copied = 0;
  failed = 0;
  timeouts = 0;
  lagging = 0;
  stale = 0;
  messages = 0;

  count({ kind }: Delivered, messages: number): void {
    if (kind === "copied") {
      this.copied++;
      this.messages += messages;
    } else if (kind === "timeout") this.timeouts++;
    else this[kind]++;
  }
}

export interface DeliveryParts {
  readonly meter: FanoutMeter;
  readonly core: CoreService;
  readonly world: World;
  readonly limits: Pick<FanoutLimits, "timeoutMs" | "graceMs" | "flightBytes">;
}

interface Call {
  readonly member: Member;
  readonly startedAt: number;
  isSlow: boolean;
}

export class Delivery implements Deliveries {
  copied = 0;
  /** How far the latest of those is who have their copy. */
  latest: Position | undefined;
  readonly missed: Missed[number][] = [];
  readonly reached: Promise<void>;
  readonly mostly: Promise<void>;
  readonly all: Promise<void>;
  private readonly waiting: Member[];
  private next = 0;
  private readonly calls = new Map<Member, Call>();
  private readonly atATime: number;
  private slow = 0;
  private cancel: Cancel | undefined;
  private resolveReached!: () => void;
  private resolveMostly!: () => void;
  private resolveAll!: () => void;

  constructor(
    private readonly parts: DeliveryParts,
    private readonly project: string,
    readonly copy: Copy,
    members: readonly Member[],
    atATime: number,
  ) {
    const fit = Math.floor(parts.limits.flightBytes / (copy.bytes + 1));
    this.atATime = Math.max(1, Math.min(atATime, fit));
    this.waiting = [...members];
    this.reached = new Promise((resolve) => {
      this.resolveReached = resolve;
    });
    this.mostly = new Promise((resolve) => {
      this.resolveMostly = resolve;
    });
    this.all = new Promise((resolve) => {
      this.resolveAll = resolve;
    });
    this.go();
  }

  get pending(): readonly Member[] {
    return [...this.calls.keys()];
  }

  private go(): void {
    const { waiting, calls } = this;
    while (this.next < waiting.length && calls.size - this.slow < this.atATime) this.call(waiting[this.next++]!);
    if (this.next < waiting.length || calls.size > this.slow) {
      this.cancel ??= this.parts.world.after(this.tickMs(), () => this.tick());
      return;
    }
    this.resolveMostly();
    if (calls.size > 0) {
      this.cancel ??= this.parts.world.after(this.tickMs(), () => this.tick());
      return;
    }
    this.cancel?.();
    this.resolveAll();
  }

  private tickMs(): number {
    const { graceMs, timeoutMs } = this.parts.limits;
    return Math.max(1, Math.min(graceMs, timeoutMs));
  }

  private call(member: Member): void {
    const call: Call = { member, startedAt: this.parts.world.now(), isSlow: false };
    this.calls.set(member, call);
    this.post(member).then(
      (outcome) => {
        const { kind } = outcome;
        if (kind === "applied" || kind === "duplicate") this.settle(call, { kind: "copied", at: outcome.at });
        else this.settle(call, outcome as Delivered);
      },
      (fault) => this.settle(call, { kind: "failed", fault }),
    );
  }

  private async post(member: Member) {
    return this.parts.core.deliver(this.project, member.session, this.copy, member);
  }

  private settle(call: Call, result: Delivered): void {
    if (this.calls.get(call.member) !== call) return;
    this.calls.delete(call.member);
    if (call.isSlow) this.slow--;
    if (result.kind === "copied") {
      this.copied++;
      this.latest = result.at;
    } else this.missed.push([call.member, result]);
    if (result.kind === "copied" || result.kind === "lagging") this.resolveReached();
    this.parts.meter.count(result, this.copy.size);
    this.go();
  }

  private tick(): void {
    this.cancel = undefined;
    const now = this.parts.world.now();
    const { graceMs, timeoutMs } = this.parts.limits;
    for (const call of [...this.calls.values()]) {
      const age = now - call.startedAt;
      if (age >= timeoutMs) this.settle(call, { kind: "timeout" });
      else if (age >= graceMs && !call.isSlow) {
        call.isSlow = true;
        this.slow++;
      }
    }
    this.go();
  }
}
