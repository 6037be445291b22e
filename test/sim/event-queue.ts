/**
 * The pending events of a simulated world. Only the world uses it.
 *
 * Invariants: due events are equals in one heap; later ones wait in the order of their time. A cancelled event, or one of a
 * dead process, is never given out.
 */
export interface SimEvent {
  readonly atMs: number;
  readonly label: string;
  readonly task: () => void;
  readonly process: { readonly name: string; readonly alive: boolean } | undefined;
  isOff: boolean;
}

export class EventQueue {
  private readonly ready: SimEvent[] = [];
  /** A binary heap, the earliest at the top; the order among equal times does not matter, as they become ready together. */
  private readonly later: SimEvent[] = [];

  add(event: SimEvent, nowMs: number): void {
    if (event.atMs <= nowMs) this.ready.push(event);
    else this.push(event);
  }

  /** Takes the ready event that `draw` picks; when none is ready, the earliest ones become ready. */
  take(nowMs: number, draw: (count: number) => number): SimEvent | undefined {
    let atMs = nowMs;
    for (;;) {
      this.move(atMs);
      while (this.ready.length > 0) {
        const at = draw(this.ready.length);
        const event = this.ready[at]!;
        this.ready[at] = this.ready.at(-1)!;
        this.ready.pop();
        if (isLive(event)) return event;
      }
      while (this.later.length > 0 && !isLive(this.later[0]!)) this.pop();
      if (this.later.length === 0) return undefined;
      atMs = this.later[0]!.atMs;
    }
  }

  private move(untilMs: number): void {
    while (this.later.length > 0 && this.later[0]!.atMs <= untilMs) this.ready.push(this.pop());
  }

  private push(event: SimEvent): void {
    const heap = this.later;
    let at = heap.length;
    heap.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent]!.atMs <= event.atMs) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  private pop(): SimEvent {
    const heap = this.later;
    const top = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.atMs < heap[child]!.atMs) child++;
      if (heap[child]!.atMs >= last.atMs) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return top;
  }
}

function isLive(event: SimEvent): boolean {
  return !event.isOff && event.process?.alive !== false;
}
