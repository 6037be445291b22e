/**
 * Whether retention may have taken messages by then. At least what was asked for is kept: as many messages, as many bytes,
 * as much time. Used where a reader was told of a cut, or found one.
 */
import { type Call, type History, show } from "../history.ts";
import type { Incarnation, Ledger } from "./ledger.ts";
import { observe } from "./observations.ts";

/** Every refusal that says "trimmed" must have been allowed. */
export function checkTrims(ledger: Ledger): string[] {
  const violations: string[] = [];
  for (const call of ledger.history.calls) {
    const { result, op } = call;
    if (result.kind !== "refused" || result.code !== "offset-trimmed") continue;
    // Where a fork is cut it may be in what it has inherited, and then the offset does not tell which fork it was.
    const isOurs = result.earliest && !ledger.isFork(op.path);
    const life = isOurs ? ledger.incarnation(op.path, result.earliest!.generation) : undefined;
    if (result.earliest && isTrimExplained(ledger, life, result.earliest.seq, call)) continue;
    violations.push(`messages are gone that retention keeps: ${show(call)}`);
  }
  return violations;
}

/** Whether everything up to and including message `through` may have gone by the time the call returned. */
export function isTrimExplained(ledger: Ledger, life: Incarnation | undefined, through: number, call: Call): boolean {
  if (ledger.isFork(call.op.path)) return isInheritedCutExplained(ledger, life, through, call);
  return isCutExplained(ledger, life, through, call);
}

/** A source keeps what its forks read, so whatever a fork misses was gone before there was a fork. */
function isInheritedCutExplained(ledger: Ledger, fork: Incarnation | undefined, through: number, call: Call): boolean {
  const create = fork?.create;
  const origin = create?.op.fork;
  // Which fork it was, or what its source has inherited itself, need not be known.
  if (!create || !origin || ledger.isFork(origin.source)) return ledger.mayInheritCut(call.op.path);
  const source = ledger.incarnation(origin.source, origin.at.generation);
  return isCutExplained(ledger, source, through, create);
}

function isCutExplained(ledger: Ledger, life: Incarnation | undefined, through: number, call: Call): boolean {
  const retention = life?.create?.op.retention;
  if (life === undefined || retention === undefined) return false;
  const { maxMessages, maxBytes, maxAgeSeconds } = retention;
  const until = call.returned?.tick ?? Number.POSITIVE_INFINITY;
  const seen = observe(ledger).filter(
    ({ path, position, invoked }) => path === life.path && position.generation === life.generation && invoked <= until,
  );
  // Writes of unknown outcome that nobody ever saw may have happened, and been cut since.
  const unseen = ledger.unseenWrites(life.path, until);
  const tail = Math.max(through, ...seen.map(({ position }) => position.seq));
  if (maxMessages !== undefined && tail - through + unseen >= maxMessages) return true;
  const bytes = bytesBetween(ledger.history, life, through, tail);
  if (maxBytes !== undefined && (unseen > 0 || bytes >= maxBytes)) return true;
  return maxAgeSeconds !== undefined && isOlder(ledger, life, through, call, maxAgeSeconds * 1_000);
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

function isOlder({ mutations }: Ledger, life: Incarnation, seq: number, call: Call, maxAgeMs: number): boolean {
  const write = mutations.find((one) => one.incarnation === life && one.firstSeq <= seq && seq <= one.lastSeq);
  const until = call.returned?.ms ?? Number.POSITIVE_INFINITY;
  // Nobody saw it, so nobody knows when it was written.
  return write === undefined || write.call.invoked.ms + maxAgeMs <= until;
}
