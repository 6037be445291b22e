/**
 * What one tab has told the server about each of its subscriptions, and what the server said it has stored. `SimTab` writes it
 * and judges every pointer by it.
 *
 * Invariants: a pointer is never ahead of the tab's own word about that subscription, and never goes back.
 */
import type { Ledger } from "./ledger.ts";

export class Words {
  /** By subscription: the furthest offset that the tab has named or was given. */
  private readonly said = new Map<string, string>();
  /** By subscription: where the server last said that the pointer is, or confirmed that it stored it. */
  private readonly stored = new Map<string, string>();
  /** Heartbeats that were sent, some of which will come again. */
  readonly sent: string[] = [];

  constructor(
    private readonly tab: string,
    private readonly ledger: Ledger,
  ) {}

  say(subscription: string, offset: string): void {
    const before = this.said.get(subscription);
    if (before === undefined || before < offset) this.said.set(subscription, offset);
  }

  confirm(subscription: string, offset: string): void {
    this.stored.set(subscription, offset);
  }

  /** What was confirmed up to now; an answer to a request that is sent later must not be behind it. */
  confirmed(): ReadonlyMap<string, string> {
    return new Map(this.stored);
  }

  /** The server says where the pointer of a subscription is. */
  judge(subscription: string, offset: string, confirmed: ReadonlyMap<string, string>): void {
    const said = this.said.get(subscription);
    // The first word about a subscription is the server's.
    if (said === undefined) {
      this.say(subscription, offset);
      return;
    }
    if (offset > said) this.ledger.object(this.tab, `the pointer of ${subscription} is at ${offset}, ahead of ${said}`);
    const before = confirmed.get(subscription);
    if (before !== undefined && before > offset && this.ledger.streamsStay) {
      this.ledger.object(this.tab, `the pointer of ${subscription} went back from ${before} to ${offset}`);
    }
  }
}
