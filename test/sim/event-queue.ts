/**
 * What is going to happen in a simulated world: events whose time has come lie in one heap of equals, later ones wait in
 * the order of their time. Only the world uses it. Events that were called off, or whose process has died, are never given out.
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
  /** A binary heap, the earliest at the top; among equal times the order does not matter, as they become ready together. */
  private readonly later: SimEvent[] = [];

  add(event: SimEvent, nowMs: number): void {
    if (event.atMs <= nowMs) this.ready.push(event);
    else this.push(event);
  }

  /** One of the events that are ready, as `draw` says; when none is, the earliest ones become ready. */
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
