/**
 * What readers saw. Every page follows on the offset that was asked for: no hole, no repetition, no step back. A page that
 * starts later must be explained by retention, or by the stream having been created anew since that offset was given out.
 * That the messages are the right ones follows from the ledger: all readers and writers agree on what lies where.
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
  const { from, mode, path } = call.op;
  if (next.generation === 0) return "a page ends before every stream";
  const offsets = call.result.kind === "done" ? call.result.offsets : undefined;
  const wrong = offsets?.findIndex((offset, i) => offset.seq !== next.seq - ids.length + i + 1);
  if (wrong !== undefined && wrong >= 0) return `the message ${wrong} of a page is not where counting puts it`;
  if (from === "now") return ids.length > 0 && mode !== "long-poll" ? "a read from now on returned what was there before" : undefined;
  const before = next.seq - ids.length;
  if (from === "-1") return checkBeginning(ledger, call, next, before);
  if (comparePositions(next, from) < 0) return "a page ends before the offset that was asked for";
  const life = ledger.incarnation(path, next.generation) ?? ledger.owner(path, next, next.seq);
  const isOurs = life && holds(ledger, life, from);
  if (life === undefined || isOurs === undefined) return undefined;
  if (isOurs) return before === from.seq ? undefined : `a page does not follow on ${showPosition(from)}`;
  // The offset is from an earlier life of this path, so the reader starts this one at its beginning.
  const starts = [0, life.base ?? before];
  return starts.includes(before) ? undefined : "a reader from an earlier life does not start at the beginning";
}

function checkBeginning(ledger: Ledger, call: Call<Read>, next: Position, before: number): string | undefined {
  if (before === 0) return undefined;
  const life = ledger.incarnation(call.op.path, next.generation);
  if (life === undefined || isTrimExplained(ledger, life, before, call)) return undefined;
  return `a read from the beginning starts after message ${before}`;
}

/** Whether a position lies in what this life of a path shows, inherited or its own; undefined if that cannot be told. */
function holds(ledger: Ledger, life: Incarnation, position: Position): boolean | undefined {
  if (life.base === undefined) return undefined;
  if (position.generation === life.generation && position.seq > life.base) return true;
  const origin = life.create?.op.fork;
  if (origin === undefined) return position.generation === life.generation && position.seq === life.base;
  if (comparePositions(position, origin.at) > 0) return false;
  const source = ledger.owner(origin.source, origin.at, origin.at.seq);
  return source && holds(ledger, source, position);
}
