/**
 * The ids of the last messages of a log, by which a subscription with `deduplicates` recognizes a repetition. A log of a
 * dispatcher has one.
 *
 * Invariants: whether a message is a repetition follows from the log alone, so that every dispatcher decides the same. It holds
 * at most `window` ids.
 */
export class RecentIds {
  private readonly seqs = new Map<string, number>();

  constructor(private readonly window: number) {}

  /** Notes a message. True if one of the `window` messages before it has the same id. Messages come in order. */
  isRepeated(id: string, seq: number): boolean {
    const before = this.seqs.get(id);
    // Deleting first keeps the map in the order of the log.
    if (before !== undefined) this.seqs.delete(id);
    this.seqs.set(id, seq);
    for (const [oldest, at] of this.seqs) {
      if (seq - at <= this.window) break;
      this.seqs.delete(oldest);
    }
    return before !== undefined && before < seq && seq - before <= this.window;
  }
}
