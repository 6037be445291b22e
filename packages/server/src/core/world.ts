/**
 * What the outside gives: time, timers, turns of the event loop and randomness. Everything below `compose` takes them from
 * here, so that the whole server can run in a seeded simulation.
 */
export interface World {
  /** Epoch ms. */
  now(): number;
  /** Runs `task` once after `ms`; the returned function forgets it. */
  after(ms: number, task: () => void): Cancel;
  /** Runs `task` in a later turn, once the inputs that have already arrived were taken in. */
  soon(task: () => void): void;
  /** Uniform in [0, 1). */
  random(): number;
  /** Unguessable. */
  randomBytes(count: number): Uint8Array;
}

export type Cancel = () => void;
