/**
 * The flow control of the streams of one subscription: how much is delivered and not yet answered, and how much may be. The
 * dispatcher has one per stream, or one for several streams that share their limits.
 *
 * Invariants: it counts a message from its lease to the end of that lease. A message that reaches a limit still goes, so that a
 * message larger than `maxBytes` is delivered.
 */
import type { FlowLimits } from "./contract.ts";

export class Flow {
  private messages = 0;
  private bytes = 0;
  /** Streams that use it. */
  users = 0;

  constructor(private limits: FlowLimits) {}

  set(limits: FlowLimits): void {
    this.limits = limits;
  }

  get allowsExcess(): boolean {
    return this.limits.allowsExcess ?? false;
  }

  get hasRoom(): boolean {
    const { maxMessages = 0, maxBytes = 0 } = this.limits;
    // 0 is no limit, as on Google's wire.
    return (maxMessages <= 0 || this.messages < maxMessages) && (maxBytes <= 0 || this.bytes < maxBytes);
  }

  add(bytes: number): void {
    this.messages++;
    this.bytes += bytes;
  }

  remove(bytes: number): void {
    this.messages--;
    this.bytes -= bytes;
  }
}
