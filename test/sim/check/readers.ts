/**
 * Checks what readers saw. Called by index.ts. The ledger already proves that all readers and writers agree on each place.
 *
 * Invariants: every page follows the requested offset without a hole, a repetition or a step back. Retention, or a stream
 * created anew since that offset was given out, must explain a page that starts later.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { type Call, type Read, show, showPosition } from "../history.ts";
import type { Incarnation, Ledger } from "./ledger.ts";
import { isTrimExplained } from "./retention.ts";

export function checkReaders(ledger: Ledger): string[] {
  const violations: string[] = [];
  for (const call of ledger.history.calls) {
    if (call.op.kind !== "read" || call.result.kind !== "done" || call.result.next === undefined) continue;
    const problem = checkPage(ledger, call as Call<Read>, call.result.next, call.result.ids ?? []);
    if (problem) violations.push(`${problem}: ${show(call)}`);
  }
  return violations;
}

function checkPage(ledger: Ledger, call: Call<Read>, next: Position, ids: readonly string[]): string | undefined {
  const { from, mode } = call.op;
  if (next.generation === 0) return "a page ends before every stream";
  const offsets = call.result.kind === "done" ? call.result.offsets : undefined;
  const wrong = offsets?.findIndex((offset, i) => offset.seq !== next.seq - ids.length + i + 1);
  if (wrong !== undefined && wrong >= 0) return `the message ${wrong} of a page is not where counting puts it`;
  if (from === "now")
    return ids.length > 0 && mode !== "long-poll" ? "a read from now on returned what was there before" : undefined;
  const before = next.seq - ids.length;
  const life = ledger.lifeOfPage(call);
  if (from !== "-1") {
    if (comparePositions(next, from) < 0) return "a page ends before the offset that was asked for";
    if (before === from.seq && (life === undefined || holds(life, from) !== false)) return undefined;
    if (life && holds(life, from)) return `a page does not follow on ${showPosition(from)}`;
  }
  // From the beginning, or from an offset of an earlier life; such a reader starts this life at its beginning.
  if (before === 0 || (from !== "-1" && before === life?.base)) return undefined;
  if (isTrimExplained(ledger, life, before, call)) return undefined;
  return `a read from the beginning starts after message ${before}`;
}

/** Whether a position lies in the range of this life; undefined where a fork may have inherited it. */
function holds({ base, generation, create }: Incarnation, position: Position): boolean | undefined {
  if (base === undefined) return undefined;
  if (position.generation === generation && position.seq > base) return true;
  const origin = create?.op.fork;
  if (origin) return comparePositions(position, origin.at) > 0 ? false : undefined;
  return position.generation === generation && position.seq === base;
}
