/**
 * A log as its only writer knows it: messages that were acknowledged, and messages whose answer was lost. `differences` holds it
 * against what a reader sees.
 *
 * Invariants: the texts of a log are unique. What is appended at once is there as a whole or not at all.
 */

interface Entry {
  readonly texts: readonly string[];
  readonly isSure: boolean;
}

export class ExpectedLog {
  private readonly entries: Entry[];

  constructor(entries: readonly Entry[] = []) {
    this.entries = [...entries];
  }

  get length(): number {
    return this.entries.length;
  }

  add(texts: readonly string[], isSure: boolean): void {
    this.entries.push({ texts, isSure });
  }

  /** The log of a fork that was made when this one had so many entries. */
  upTo(length: number): ExpectedLog {
    return new ExpectedLog(this.entries.slice(0, length));
  }

  /** Empty if the log is right. */
  differences(name: string, log: readonly string[]): string[] {
    let at = 0;
    for (const { texts, isSure } of this.entries) {
      if (texts.every((text, i) => log[at + i] === text)) at += texts.length;
      else if (isSure) return [`${name}: ${texts.join(", ")} was acknowledged; the log has ${log[at]} at ${at}`];
    }
    return at === log.length ? [] : [`${name}: the log has ${log[at]} at ${at}, which was not appended there`];
  }

  /** For a log that keeps only its last messages: what it still has must be the end of what was written. */
  differencesAtEnd(name: string, log: readonly string[], least: number): string[] {
    const sure = this.entries.reduce((sum, { texts, isSure }) => sum + (isSure ? texts.length : 0), 0);
    if (log.length < Math.min(least, sure)) return [`${name}: keeps ${log.length} messages of at least ${least}`];
    if (log.length === 0) return [];
    const from = this.entries.findIndex(({ texts }) => texts.includes(log[0]!));
    if (from < 0) return [`${name}: starts with ${log[0]}, which was never appended`];
    const { texts, isSure } = this.entries[from]!;
    const first = { texts: texts.slice(texts.indexOf(log[0]!)), isSure };
    return new ExpectedLog([first, ...this.entries.slice(from + 1)]).differences(name, log);
  }
}
