/**
 * The answers that clients of channels got in one run, and the contradictions among them. Clients write it; the scenario
 * audits it.
 *
 * Invariants: an acknowledged message is stored once and at its offset; readers see the same messages, in order, and a gap
 * where messages are missing.
 */
export interface Shown {
  readonly channelId: string;
  readonly sequence: number;
  readonly phase: string;
  readonly payload: unknown;
}

export class Ledger {
  readonly violations: string[] = [];
  /** Channel, then sequence: the offset that a publisher was given. */
  private readonly acknowledged = new Map<string, Map<number, string>>();
  /** Channel, then offset: the message that some reader saw there. */
  private readonly shown = new Map<string, Map<string, string>>();

  acknowledge(channel: string, sequence: number, offset: string): void {
    const known = inner(this.acknowledged, channel);
    const before = known.get(sequence);
    if (before !== undefined && before !== offset) this.object(channel, `${sequence} is at ${before} and at ${offset}`);
    known.set(sequence, offset);
  }

  show(channel: string, offset: string, message: Shown): void {
    const known = inner(this.shown, channel);
    const text = JSON.stringify(message);
    const before = known.get(offset);
    if (before !== undefined && before !== text) this.object(channel, `at ${offset} is ${before} and ${text}`);
    known.set(offset, text);
    if (message.payload !== payloadOf(channel, message.sequence)) this.object(channel, `no client published ${text}`);
  }

  /**
   * Compares what a reader saw of a channel at the end. It may have left before the last messages, so `log` has the kept
   * messages from the store; every message up to `trimmed` is gone.
   */
  audit(
    channel: string,
    log: readonly { offset: string; sequence: number }[],
    trimmed: string,
    stored: { readonly kept: number; readonly appended: number },
    asked: number,
  ): void {
    for (const [i, { sequence }] of log.entries()) {
      if (i > 0 && sequence !== log[i - 1]!.sequence + 1)
        this.object(channel, `${sequence} follows ${log[i - 1]!.sequence}`);
    }
    const bySequence = new Map(log.map(({ offset, sequence }) => [sequence, offset]));
    for (const [sequence, offset] of inner(this.acknowledged, channel)) {
      if (offset > trimmed && bySequence.get(sequence) !== offset) {
        this.object(channel, `${sequence} was acknowledged at ${offset}, and is at ${bySequence.get(sequence)}`);
      }
    }
    const offsets = new Set(log.map(({ offset }) => offset));
    for (const offset of inner(this.shown, channel).keys()) {
      if (offset > trimmed && !offsets.has(offset)) this.object(channel, `${offset} was shown and is gone`);
    }
    const { kept, appended } = stored;
    if (kept < Math.min(asked, appended)) this.object(channel, `${kept} of ${appended} messages are kept`);
    if (kept > asked * 1.1 + 1) this.object(channel, `${kept} messages are kept, ${asked} were asked for`);
  }

  lastAcknowledged(channel: string): number {
    return Math.max(-1, ...inner(this.acknowledged, channel).keys());
  }

  object(channel: string, what: string): void {
    this.violations.push(`[channels] ${channel}: ${what}`);
  }
}

/** Every message identifies itself. */
export function payloadOf(channel: string, sequence: number): string {
  return `${channel}:${sequence}`;
}

function inner<K>(map: Map<string, Map<K, string>>, channel: string): Map<K, string> {
  const found = map.get(channel) ?? new Map<K, string>();
  map.set(channel, found);
  return found;
}
