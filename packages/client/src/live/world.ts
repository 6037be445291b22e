/**
 * The ports of a live session: clock, timers, chance, and the page that it runs in. `browser-world.ts` implements them with what
 * the platform has; tests and the simulator bring their own.
 *
 * Invariants: no other file of this folder reads a clock, sets a timer or draws a random number by itself.
 */
import type { SluiceError } from "../error.ts";
import type { LastWords } from "../page-exit.ts";

export type Cancel = () => void;

export interface LiveWorld {
  /** Epoch milliseconds. */
  now(): number;
  /** Uniform in [0, 1). */
  random(): number;
  after(ms: number, task: () => void): Cancel;
  /** Shows an error that no listener takes. */
  report(error: SluiceError): void;
  readonly page: LivePage;
}

/**
 * `held`: no other page uses the name until `release`. `taken`: another page holds it. `unknown`: the platform has no locks.
 */
export type Hold =
  | { readonly kind: "held"; readonly release: () => void }
  | { readonly kind: "taken" }
  | { readonly kind: "unknown" };

/** The page, as far as a session needs one. */
export interface LivePage {
  /** Storage that survives a reload and that a duplicated tab copies. */
  load(key: string): string | undefined;
  save(key: string, value: string): void;
  /** Takes a lock that all pages of the origin share; waits at most `waitMs` for the page that holds it. */
  hold(name: string, waitMs: number): Promise<Hold>;
  /** Runs when the page is hidden, perhaps for good. */
  onHide(words: LastWords): Cancel;
  /** Runs when the page is shown again, and when the network is back. */
  onWake(task: () => void): Cancel;
  /** Runs when the platform has lost its network. */
  onOffline(task: () => void): Cancel;
}
