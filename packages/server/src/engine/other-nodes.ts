/**
 * What differs where other nodes write to the same store, one function per idea. Features call these and never ask which
 * engine they run on.
 *
 * Invariants: `Engine.exclusive` is read inside engine/ only; each function says what its callers may rely on, and why.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Engine, Head } from "./contract.ts";

/**
 * Whether everything that this process remembers or has heard is still true. Otherwise another node may have committed since,
 * and only hints tell of that: compare with the store before each use.
 */
export function isMemoryTruth({ exclusive }: Pick<Engine, "exclusive">): boolean {
  return exclusive;
}

/**
 * Whether work that is stored as begun, and that this process does not have in flight, is in flight nowhere: the process that
 * began it has ended. Otherwise another node may be at it.
 */
export function isWorkOursAlone({ exclusive }: Pick<Engine, "exclusive">): boolean {
  return exclusive;
}

/** When to look again for what another node has changed or left undone; null where there is no other node. */
export function recheckAtMs(engine: Pick<Engine, "exclusive" | "now">, everyMs: number): number | null {
  return engine.exclusive ? null : engine.now() + everyMs;
}

/**
 * Whether a position lies beyond the tail, so that no client can have been given it. A store that fails over can lose the end of
 * a history and finds out with the next commit; until then a position beyond the tail may be one that a client was given.
 */
export function isNeverGiven({ exclusive }: Pick<Engine, "exclusive">, { last }: Head, position: Position): boolean {
  return exclusive && comparePositions(position, last) > 0;
}
