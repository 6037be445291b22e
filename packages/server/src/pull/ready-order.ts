/**
 * Which message of a log is leased next, and to which holder. Without ordering it is the lowest that is ready. With ordering, the
 * messages of one key go to one holder at a time, in their order. The dispatcher has one per log; leases are in `leases/`.
 *
 * Invariants: of a key, no message is leased before a lower one that is neither leased nor done. All leased messages of a key have
 * one holder. When a message comes back, so do the later ones of its key that are leased. Each step is logarithmic.
 */
import { SeqHeap } from "../leases/seq-heap.ts";

/** The messages of one ordering key that were read and are not done. */
interface KeyState {
  /** Not leased; entries of messages that are done meanwhile stay until they are first. */
  readonly waiting: SeqHeap;
  readonly leased: Set<number>;
  /** Has all that is leased. */
  holder: string | undefined;
}

export class ReadyOrder {
  private readonly heap = new SeqHeap();
  private readonly keys = new Map<string, KeyState>();
  /** The key of every message that is not done. */
  private readonly keyOf = new Map<number, string>();
  /** By holder: its keys with messages that wait behind leased ones. */
  private readonly pinned = new Map<string, Set<KeyState>>();

  constructor(private readonly isOrdered: boolean) {}

  /** Messages of ordering keys that are known and not done. */
  get size(): number {
    return this.keyOf.size + this.heap.size;
  }

  /** A message was read. Messages come in the order of the log. */
  add(seq: number, key: string | undefined): void {
    if (!this.isOrdered || key === undefined || key === "") {
      this.heap.add(seq);
      return;
    }
    this.keyOf.set(seq, key);
    const state = this.keys.get(key) ?? { waiting: new SeqHeap(), leased: new Set(), holder: undefined };
    this.keys.set(key, state);
    state.waiting.add(seq);
    if (this.next(state) === seq) this.offer(state);
  }

  /** The message may be leased again: its lease ended, or its delay is over. */
  ready(seq: number): void {
    const state = this.stateOf(seq);
    if (state === undefined) this.heap.add(seq);
    else this.offer(state);
  }

  /**
   * The lease of a message has ended without an acknowledgement. Returns the later messages of its key that were leased: they
   * wait behind it from now on, and the caller ends their leases.
   */
  back(seq: number): number[] {
    const state = this.stateOf(seq);
    if (state === undefined || !state.leased.delete(seq)) return [];
    const later = [...state.leased].filter((one) => one > seq);
    for (const one of later) state.leased.delete(one);
    for (const one of [seq, ...later]) state.waiting.add(one);
    this.offer(state);
    return later;
  }

  /** The message is acknowledged, or will never be delivered. */
  done(seq: number): void {
    const key = this.keyOf.get(seq);
    const state = this.stateOf(seq);
    if (key === undefined || state === undefined) return;
    this.keyOf.delete(seq);
    state.leased.delete(seq);
    this.settle(key, state);
  }

  /** These messages do not exist any more: retention took the beginning of the log, or a failover its end. */
  forget(isGone: (seq: number) => boolean): void {
    this.heap.keep((seq) => !isGone(seq));
    for (const seq of this.keyOf.keys()) if (isGone(seq)) this.keyOf.delete(seq);
    for (const [key, state] of this.keys) {
      for (const seq of state.leased) if (isGone(seq)) state.leased.delete(seq);
      this.settle(key, state);
    }
  }

  /** Offers what is left of a key after messages went, or forgets the key. */
  private settle(key: string, state: KeyState): void {
    this.offer(state);
    if (this.next(state) === undefined && state.leased.size === 0) this.keys.delete(key);
  }

  /**
   * Takes the next message for a holder; the caller leases it. `isReady` tells whether it may be leased at all: it is neither
   * acknowledged, leased, delayed nor dead. With `isSequential`, the holder gets one message of a key at a time.
   */
  take(holder: string, isSequential: boolean, isReady: (seq: number) => boolean): number | undefined {
    const own = isSequential ? undefined : this.takePinned(holder, isReady);
    if (own !== undefined) return own;
    for (let seq = this.heap.take(); seq !== undefined; seq = this.heap.take()) {
      const state = this.stateOf(seq);
      if (state === undefined) {
        if (isReady(seq)) return seq;
        continue;
      }
      // An entry may be old: the key was taken by a holder, or a lower message has come back.
      if (state.leased.size > 0 || this.next(state) !== seq || !isReady(seq)) continue;
      this.lease(state, holder);
      return seq;
    }
    return undefined;
  }

  /** Puts a message back that was taken and is not leased after all. */
  untake(seq: number): void {
    if (this.stateOf(seq) === undefined) this.heap.add(seq);
    else this.back(seq);
  }

  private takePinned(holder: string, isReady: (seq: number) => boolean): number | undefined {
    const states = this.pinned.get(holder);
    if (states === undefined) return undefined;
    for (const state of states) {
      const seq = this.next(state);
      if (seq === undefined) {
        states.delete(state);
        continue;
      }
      if (!isReady(seq)) continue;
      this.lease(state, holder);
      return seq;
    }
    return undefined;
  }

  private lease(state: KeyState, holder: string): void {
    state.holder = holder;
    state.leased.add(state.waiting.take()!);
    this.offer(state);
  }

  /** The next message of a key goes to the holder of the earlier ones, or to any holder if nothing is leased. */
  private offer(state: KeyState): void {
    if (state.leased.size === 0) this.unpin(state);
    const first = this.next(state);
    if (first === undefined) return;
    if (state.holder === undefined) {
      this.heap.add(first);
      return;
    }
    const states = this.pinned.get(state.holder) ?? new Set();
    this.pinned.set(state.holder, states.add(state));
  }

  private unpin(state: KeyState): void {
    if (state.holder === undefined) return;
    const states = this.pinned.get(state.holder);
    states?.delete(state);
    if (states?.size === 0) this.pinned.delete(state.holder);
    state.holder = undefined;
  }

  /** The lowest message of a key that is neither leased nor done. */
  private next({ waiting, leased }: KeyState): number | undefined {
    while (waiting.first !== undefined && (!this.keyOf.has(waiting.first) || leased.has(waiting.first))) waiting.take();
    return waiting.first;
  }

  private stateOf(seq: number): KeyState | undefined {
    const key = this.keyOf.get(seq);
    return key === undefined ? undefined : this.keys.get(key);
  }
}
