/**
 * Lowers the priority of a background thread: the applier's and the background check's. Requests wait for the engine's thread and
 * not for these two.
 *
 * Invariants: a low priority means less processor time, not none. If the applier falls behind, back-pressure holds the journal.
 */
import { constants, getPriority, setPriority } from "node:os";

/** Lowers the priority of the calling thread. Works on Linux only, where each thread has a priority of its own. */
export function giveWay(nice: number): void {
  if (process.platform !== "linux" || nice === 0) return;
  setPriority(Math.min(getPriority() + nice, constants.priority.PRIORITY_LOW));
}
