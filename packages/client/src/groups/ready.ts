/**
 * Messages that were delivered and wait to be handed out. The member owns one.
 *
 * Invariants: messages of a stream are taken in order. Streams take turns, those that must be given back first, because their next
 * member waits for them.
 */

export class Ready<D extends { readonly stream: string }> {
  private readonly lanes = new Map<string, D[]>();
  private readonly urgent = new Set<string>();

  add(delivery: D): void {
    const lane = this.lanes.get(delivery.stream);
    if (lane === undefined) this.lanes.set(delivery.stream, [delivery]);
    else lane.push(delivery);
  }

  /** The next message, of a stream that is not busy. */
  take(busy: ReadonlySet<string> | undefined): D | undefined {
    for (const streams of [this.urgent, this.lanes.keys()]) {
      for (const stream of streams) {
        const lane = this.lanes.get(stream);
        if (lane !== undefined && !busy?.has(stream)) return this.takeFrom(stream, lane);
      }
    }
    return undefined;
  }

  private takeFrom(stream: string, lane: D[]): D | undefined {
    // The stream goes to the end, so that others get their turn.
    this.lanes.delete(stream);
    const delivery = lane.shift();
    if (lane.length > 0) this.lanes.set(stream, lane);
    return delivery;
  }

  /** Hands out the rest of this stream first. */
  hurry(stream: string): void {
    this.urgent.add(stream);
  }

  drop(stream: string): void {
    this.lanes.delete(stream);
    this.urgent.delete(stream);
  }

  clear(): void {
    this.lanes.clear();
    this.urgent.clear();
  }
}
