/**
 * One copy on its way to many inboxes, with bounded concurrency and a timeout per inbox. A source starts one for every
 * round, inline or queued; a laggard gets one of its own.
 *
 * Invariants: a slow session does not occupy a concurrency slot. After the grace time the round can end without it, and
 * its outcome is counted when it answers or times out.
 */
import type { Position } from "@sluice/protocol";
import type { Cancel, World } from "../core/world.ts";
import type { Copy } from "./copy.ts";
import type { FanoutLimits } from "./defaults.ts";
import type { Addressed } from "./session-rules.ts";
import type { StreamPort } from "./stream-port.ts";

export interface Member extends Addressed {
  readonly session: string;
}

export type Delivered =
  | { readonly kind: "copied"; readonly at: Position }
  | { readonly kind: "lagging"; readonly at: Position }
  | { readonly kind: "stale"; readonly borrows: boolean }
  | { readonly kind: "failed"; readonly fault: unknown }
  | { readonly kind: "timeout" };

/** The sessions without a copy, with the reason. */
export type Missed = readonly (readonly [Member, Exclude<Delivered, { readonly kind: "copied" }>])[];

/**
 * Copies on their way, and their outcomes so far. Only the number of successful copies is kept, because a walk over
 * thousands of sessions would block all other requests meanwhile.
 */
export interface Deliveries {
  readonly copied: number;
  readonly missed: Missed;
  /** Sessions that have not answered yet. */
  readonly pending: readonly Member[];
  /** Resolves when the first session has answered; never if none does. */
  readonly reached: Promise<void>;
  /** Every session has answered or is slow. */
  readonly answeredOrSlow: Promise<void>;
  /** Every session has answered or timed out. */
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
  readonly port: StreamPort;
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
  /** The position of the session that applied its copy last. */
  latest: Position | undefined;
  readonly missed: Missed[number][] = [];
  readonly reached: Promise<void>;
  readonly answeredOrSlow: Promise<void>;
  readonly all: Promise<void>;
  private readonly waiting: Member[];
  private next = 0;
  private readonly calls = new Map<Member, Call>();
  private readonly atATime: number;
  private slow = 0;
  private cancel: Cancel | undefined;
  private resolveReached!: () => void;
  private resolveAnsweredOrSlow!: () => void;
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
    this.answeredOrSlow = new Promise((resolve) => {
      this.resolveAnsweredOrSlow = resolve;
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
    this.resolveAnsweredOrSlow();
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
    const call: Call = { member, startedAt: this.parts.world.monotonicMs(), isSlow: false };
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
    return this.parts.port.deliver(this.project, member.session, this.copy, member);
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
    const now = this.parts.world.monotonicMs();
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
