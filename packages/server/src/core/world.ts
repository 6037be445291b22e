/**
 * The outside world: time, timers, turns of the event loop and randomness.
 *
 * Invariants: all code below `compose` takes them from here, so the whole server can run in a seeded simulation.
 */
export interface World {
  /** Epoch ms, for dates. An operator or a time server may set this clock by hours, forward or back. */
  now(): number;
  /** Ms since some fixed moment, for spans. It never falls and never jumps, whatever happens to the clock of `now`. */
  monotonicMs(): number;
  /** Runs `task` once after `ms`; the returned function cancels it. */
  after(ms: number, task: () => void): Cancel;
  /** Runs `task` in a later turn, after the inputs that have already arrived. */
  soon(task: () => void): void;
  /** Uniform in [0, 1). */
  random(): number;
  /** Unguessable. */
  randomBytes(count: number): Uint8Array;
}

export type Cancel = () => void;

/** Lets the inputs that have already arrived go first. A loop over stored data awaits it, because reads may complete at once. */
export function nextTurn(world: Pick<World, "soon">): Promise<void> {
  return new Promise((resolve) => world.soon(resolve));
}
