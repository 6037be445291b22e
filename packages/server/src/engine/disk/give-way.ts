/**
 * Somebody waits for what the engine's thread does, and nobody for the applier's: where there are fewer processors than threads that
 * want one, the applier gives way. It gets less, not nothing, and when it falls behind the journal waits for it.
 */
import { constants, getPriority, setPriority } from "node:os";

/** Makes the thread that calls it nicer, and no other: on Linux alone threads have priorities of their own. */
export function giveWay(nice: number): void {
  if (process.platform !== "linux" || nice === 0) return;
  setPriority(Math.min(getPriority() + nice, constants.priority.PRIORITY_LOW));
}
