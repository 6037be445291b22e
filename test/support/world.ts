/**
 * A world whose clock stands still until the test advances it, and whose randomness follows a seed. Contract and model tests
 * use it.
 *
 * Invariants: turns of the event loop stay real, because engines under test do real I/O.
 */
import type { World } from "../../packages/server/src/core/world.ts";

export interface ManualWorld extends World {
  /** Moves the clock and runs the timers that become due on the way, in order, each at its own time. */
  advance(ms: number): void;
  /** How long until the next timer is due; infinite if there is none. */
  nextInMs(): number;
  /** Sets the clock of `now` forward, or back if negative, as an operator or a time server may. No time passes. */
  setClock(byMs: number): void;
}

interface Timer {
  readonly atMs: number;
  readonly task: () => void;
}

export function manualWorld(seed: number, startMs = Date.UTC(2026, 0, 1)): ManualWorld {
  let nowMs = startMs;
  let aheadMs = 0;
  const timers = new Set<Timer>();
  const random = randomFrom(seed);

  const nextDue = (untilMs: number): Timer | undefined => {
    let next: Timer | undefined;
    for (const timer of timers) if (timer.atMs <= untilMs && (!next || timer.atMs < next.atMs)) next = timer;
    return next;
  };

  return {
    now: () => nowMs + aheadMs,
    monotonicMs: () => nowMs - startMs,
    after(ms, task) {
      const timer = { atMs: nowMs + ms, task };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    soon: (task) => void setImmediate(task),
    random,
    randomBytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(random() * 256)),
    advance(ms) {
      const untilMs = nowMs + ms;
      for (let timer = nextDue(untilMs); timer; timer = nextDue(untilMs)) {
        timers.delete(timer);
        nowMs = Math.max(nowMs, timer.atMs);
        timer.task();
      }
      nowMs = untilMs;
    },
    nextInMs: () => (nextDue(Number.POSITIVE_INFINITY)?.atMs ?? Number.POSITIVE_INFINITY) - nowMs,
    setClock(byMs) {
      aheadMs += byMs;
    },
  };
}

/** Uniform in [0, 1), the same numbers for the same seed: a counter, scrambled by multiplications and shifts. */
function randomFrom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  };
}
