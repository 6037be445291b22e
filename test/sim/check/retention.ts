/**
 * Whether retention may have taken messages by then. At least what was asked for is kept: as many messages, as many bytes,
 * as much time. Used where a reader was told of a cut, or found one.
 */
import { type Call, type History, show } from "../history.ts";
import type { Incarnation, Ledger, Mutation } from "./ledger.ts";

/** Every refusal that says "trimmed" must have been allowed. */
export function checkTrims(ledger: Ledger): string[] {
  const violations: string[] = [];
  for (const call of ledger.history.calls) {
    const { result, op } = call;
    if (result.kind !== "refused" || result.code !== "offset-trimmed") continue;
    const life = result.earliest && ledger.incarnation(op.path, result.earliest.generation);
    if (life && isTrimExplained(ledger, life, result.earliest!.seq, call)) continue;
    // What a fork has inherited is cut in its source.
    if (result.earliest && !life && ledger.isFork(op.path)) continue;
    violations.push(`messages are gone that retention keeps: ${show(call)}`);
  }
  return violations;
}

/** Whether everything up to and including message `through` may have gone by the time the call returned. */
export function isTrimExplained(ledger: Ledger, life: Incarnation, through: number, call: Call): boolean {
  if (life.base !== undefined && through <= life.base) {
    const origin = life.create?.op.fork;
    const source = origin && ledger.owner(origin.source, origin.at, through);
    return source === undefined || isTrimExplained(ledger, source, through, call);
  }
  const retention = life.create?.op.retention;
  if (retention === undefined) return false;
  const { maxMessages, maxBytes, maxAgeSeconds } = retention;
  const until = call.returned?.tick ?? Number.POSITIVE_INFINITY;
  const writes = ledger.mutations.filter(({ incarnation, invoked }) => incarnation === life && invoked <= until);
  const tail = Math.max(through, ...writes.map(({ lastSeq }) => lastSeq));
  if (maxMessages !== undefined && tail - through >= maxMessages) return true;
  if (maxBytes !== undefined && bytesBetween(ledger.history, life, through, tail) >= maxBytes) return true;
  return maxAgeSeconds !== undefined && isOlder(writes, through, call, maxAgeSeconds * 1_000);
}

/** What lies after `through`. A message that nobody ever saw may have been of any size. */
function bytesBetween(history: History, life: Incarnation, through: number, tail: number): number {
  let bytes = 0;
  for (let seq = through + 1; seq <= tail; seq++) {
    const id = life.ids.get(seq);
    bytes += id === undefined ? Number.POSITIVE_INFINITY : history.sizes.get(id)!;
  }
  return bytes;
}

function isOlder(writes: readonly Mutation[], seq: number, call: Call, maxAgeMs: number): boolean {
  const write = writes.find(({ firstSeq, lastSeq }) => firstSeq <= seq && seq <= lastSeq);
  const until = call.returned?.ms ?? Number.POSITIVE_INFINITY;
  // Nobody saw it, so nobody knows when it was written.
  return write === undefined || write.call.invoked.ms + maxAgeMs <= until;
}
