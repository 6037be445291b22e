/**
 * Whether retention may have trimmed messages by then. Used where a reader learned of a trim, or found one.
 *
 * Invariants: a stream keeps at least what its limits ask for: as many messages, as many bytes, as much time.
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
    // A trim in a fork may lie in its inherited messages, and then the offset does not tell which fork it was.
    const isOurs = result.earliest && !ledger.isFork(op.path);
    const life = isOurs ? ledger.incarnation(op.path, result.earliest!.generation) : undefined;
    if (result.earliest && isTrimExplained(ledger, life, result.earliest.seq, call)) continue;
    violations.push(`messages are gone that retention keeps: ${show(call)}`);
  }
  return violations;
}

/** Whether everything up to and including message `through` may have been trimmed by the time the call returned. */
export function isTrimExplained(ledger: Ledger, life: Incarnation | undefined, through: number, call: Call): boolean {
  if (ledger.isFork(call.op.path)) return isInheritedCutExplained(ledger, life, through, call);
  return isCutExplained(ledger, life, through, call);
}

/** A source keeps the messages that its forks read, so a message that a fork misses was trimmed before the fork. */
function isInheritedCutExplained(ledger: Ledger, fork: Incarnation | undefined, through: number, call: Call): boolean {
  const create = fork?.create;
  const origin = create?.op.fork;
  // Which fork it was, and what its source has inherited itself, need not be known.
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
  // Writes of unknown outcome that no client saw may have happened, and been trimmed since.
  const unseen = ledger.unseenWrites(life.path, until);
  const tail = Math.max(through, ...seen.map(({ position }) => position.seq));
  if (maxMessages !== undefined && tail - through + unseen >= maxMessages) return true;
  const bytes = bytesBetween(ledger.history, life, through, tail);
  if (maxBytes !== undefined && (unseen > 0 || bytes >= maxBytes)) return true;
  return maxAgeSeconds !== undefined && isOlder(ledger, life, through, call, maxAgeSeconds * 1_000);
}

/** The bytes after `through`. A message that no client saw may have had any size. */
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
  // No client saw the message, so its time is unknown.
  return write === undefined || write.call.invoked.ms + maxAgeMs <= until;
}
