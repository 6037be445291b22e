/**
 * Makes a background thread give way to the engine's: the applier's and the background check's. Requests wait for the engine's
 * thread and not for these two.
 *
 * Invariants: a low priority means less processor time, not none. If the applier falls behind, back-pressure holds the journal.
 */
import { constants, getPriority, setPriority } from "node:os";

/** Lowers the priority of the calling thread. Works on Linux only, where each thread has a priority of its own. */
export function giveWay(nice: number): void {
  if (process.platform !== "linux" || nice === 0) return;
  setPriority(Math.min(getPriority() + nice, constants.priority.PRIORITY_LOW));
}

/** Work without a break, and the break after it, in milliseconds. */
const WORK_MS = 0.4;
const BREAK_MS = 0.1;

/**
 * Returns a function to call between pieces of long work; it sleeps for a moment whenever the thread has worked for a while. A
 * scheduler lets a thread finish its slice of some milliseconds, whatever its priority, although a more important one has just
 * become ready on that processor.
 */
export function takingBreaks(): () => void {
  const never = new Int32Array(new SharedArrayBuffer(4));
  let since = performance.now();
  return () => {
    if (performance.now() - since < WORK_MS) return;
    Atomics.wait(never, 0, 0, BREAK_MS);
    since = performance.now();
  };
}
