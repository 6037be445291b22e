/**
 * What changes when other nodes write to the same store, one function per consequence. Features call these and never ask which
 * engine they run on.
 *
 * Invariants: `Engine.exclusive` is read inside engine/ only. Each function says what its callers may rely on, and why.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Engine, Head } from "./contract.ts";

/**
 * Whether this process's memory and the hints it has received are still true. If not, another node may have committed since and
 * only hints report that, so compare with the store before each use.
 */
export function isMemoryTruth({ exclusive }: Pick<Engine, "exclusive">): boolean {
  return exclusive;
}

/**
 * Whether work that is stored as begun, and is not in flight in this process, is in flight nowhere. If true, the process that
 * began it has ended. If false, another node may be working on it.
 */
export function isWorkOursAlone({ exclusive }: Pick<Engine, "exclusive">): boolean {
  return exclusive;
}

/** When to look again for changes or unfinished work of other nodes; null if there are no other nodes. */
export function recheckAtMs(engine: Pick<Engine, "exclusive" | "now">, everyMs: number): number | null {
  return engine.exclusive ? null : engine.now() + everyMs;
}

/**
 * Whether a position lies beyond the tail, so that no client can have received it. A store that fails over can lose the end of a
 * history and detects that at the next commit. Until then a client may have received a position beyond the tail.
 */
export function isNeverGiven({ exclusive }: Pick<Engine, "exclusive">, { last }: Head, position: Position): boolean {
  return exclusive && comparePositions(position, last) > 0;
}
