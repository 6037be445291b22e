/**
 * The part of a borrower's step that has to do with single messages of a queue: it takes batches of leases once, and tells the
 * leader what became of each message until that is durable. `borrower-rules.ts` builds on it.
 *
 * Invariants: a batch that comes twice, however late, is taken once. A message is not delivered after its lease may have ended: the
 * lease began after the ping at `sinceMs`, so it lasts at least until `sinceMs` + `leaseMs` by this borrower's clock.
 */
import type { Borrower, BorrowerEffect } from "./borrower-state.ts";
import type { GroupTimers } from "./defaults.ts";
import type { Extension, FromLeader, Settlement, ToLeader } from "./messages.ts";

export abstract class LeaseTurn {
  readonly effects: BorrowerEffect[] = [];

  constructor(
    protected readonly borrower: Borrower,
    protected readonly now: number,
    protected readonly timers: GroupTimers,
  ) {}

  protected abstract leaveIfDrained(): void;

  protected send(message: ToLeader): void {
    this.effects.push({ kind: "send", leader: this.borrower.leader, message });
  }

  protected lease({ batch, leases, sinceMs, leaseMs }: Extract<FromLeader, { type: "lease" }>): void {
    this.send({ type: "leased", batch });
    if (this.hasCome(batch)) return;
    for (const leased of leases) {
      this.borrower.leases.set(leased.lease, { leased, settlement: undefined });
      this.effects.push({ kind: "leased", untilMs: sinceMs + leaseMs, ...leased });
    }
  }

  private hasCome(batch: number): boolean {
    const { batches } = this.borrower;
    if (batch <= batches.through || batches.later.has(batch)) return true;
    batches.later.add(batch);
    while (batches.later.delete(batches.through + 1)) batches.through++;
    return false;
  }

  settle(settlements: readonly Settlement[]): void {
    const taken: Settlement[] = [];
    for (const settlement of settlements) {
      const held = this.borrower.leases.get(settlement.lease);
      if (held === undefined || held.settlement !== undefined) continue;
      held.settlement = settlement;
      taken.push(settlement);
    }
    this.tellSettlements(taken);
  }

  protected tellSettlements(settlements: readonly Settlement[]): void {
    const { borrower, now, timers } = this;
    if (settlements.length === 0) return;
    borrower.resendAtMs ??= now + timers.resendMs;
    this.send({ type: "settle", settlements });
  }

  /** What the leader has not answered yet. */
  protected settlements(): Settlement[] {
    const open: Settlement[] = [];
    for (const { settlement } of this.borrower.leases.values()) if (settlement !== undefined) open.push(settlement);
    return open;
  }

  extend(extensions: readonly Extension[]): void {
    const standing = extensions.filter(({ lease }) => this.borrower.leases.has(lease));
    if (standing.length > 0) this.send({ type: "extend", extensions: standing });
  }

  protected settled(answers: readonly { readonly lease: number; readonly isGone: boolean }[]): void {
    const { leases } = this.borrower;
    for (const { lease, isGone } of answers) {
      const held = leases.get(lease);
      if (held === undefined) continue;
      leases.delete(lease);
      this.effects.push({ kind: "settled", isGone, ...held.leased });
    }
    this.leaveIfDrained();
  }
}
