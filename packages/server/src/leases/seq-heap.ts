/** A heap of sequence numbers, smallest first. The lease core keeps the messages in it that wait for another attempt. */
export class SeqHeap {
  private readonly items: number[] = [];

  get size(): number {
    return this.items.length;
  }

  get first(): number | undefined {
    return this.items[0];
  }

  add(seq: number): void {
    const { items } = this;
    let at = items.length;
    items.push(seq);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (items[parent]! <= seq) break;
      items[at] = items[parent]!;
      at = parent;
    }
    items[at] = seq;
  }

  take(): number | undefined {
    const { items } = this;
    const first = items[0];
    const last = items.pop();
    if (first === undefined || last === undefined || items.length === 0) return first;
    let at = 0;
    for (let child = 1; child < items.length; child = 2 * at + 1) {
      if (child + 1 < items.length && items[child + 1]! < items[child]!) child++;
      if (items[child]! >= last) break;
      items[at] = items[child]!;
      at = child;
    }
    items[at] = last;
    return first;
  }

  /** Removes all others. */
  keep(isKept: (seq: number) => boolean): void {
    // A sorted list is a heap.
    const kept = this.items.filter(isKept).sort((a, b) => a - b);
    this.items.length = 0;
    for (const seq of kept) this.items.push(seq);
  }

  clear(): void {
    this.items.length = 0;
  }
}
