/**
 * The last offset processed of each stream, for as long as the tab lives: also of streams that it no longer follows, and over a
 * reload. A new subscription starts no earlier.
 *
 * Invariants: at most 1,000 streams are remembered, the latest ones.
 */
const MAX_STREAMS = 1_000;

export class Offsets {
  private readonly byStream = new Map<string, string>();

  get(stream: string): string | undefined {
    return this.byStream.get(stream);
  }

  /** Keeps the offset unless a later one is known. */
  keep(stream: string, offset: string): void {
    const before = this.byStream.get(stream) ?? "";
    this.byStream.delete(stream);
    this.byStream.set(stream, before > offset ? before : offset);
    if (this.byStream.size <= MAX_STREAMS) return;
    const [oldest] = this.byStream.keys();
    this.byStream.delete(oldest!);
  }

  all(): Record<string, string> {
    return Object.fromEntries(this.byStream);
  }
}
