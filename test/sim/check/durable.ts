/**
 * Acknowledged or shown means durable: the audit after the run finds every message that any client was told of, at its
 * place. Exceptions: the stream was deleted or has expired (life.ts says whether it may), or retention trimmed the message.
 *
 * Invariants: a repetition that was answered as a duplicate counts as acknowledged.
 */
import { type Call, type Final, show, showPosition } from "../history.ts";
import type { Incarnation, Ledger } from "./ledger.ts";
import { observe } from "./observations.ts";

export function checkDurable(ledger: Ledger): string[] {
  const violations: string[] = [];
  const observations = observe(ledger);
  for (const [path, final] of ledger.history.finals) {
    if (final.kind !== "live") continue;
    const life = ledger.incarnation(path, final.next.generation);
    if (life === undefined) continue;
    violations.push(...checkMessages(ledger, life, final), ...checkDuplicates(ledger, life, final));
    const closed = observations.find(
      (one) =>
        one.closed && one.path === path && one.position.generation === life.generation && Number.isFinite(one.returned),
    );
    if (closed && !final.closed) violations.push(`${path} was closed, and the end found it open: ${show(closed.call)}`);
  }
  return violations;
}

type Live = Extract<Final, { kind: "live" }>;

function checkMessages(ledger: Ledger, life: Incarnation, { next }: Live): string[] {
  const violations: string[] = [];
  for (const [seq, id] of life.ids) {
    if (seq <= next.seq) continue;
    const place = `${life.path} at ${showPosition({ generation: life.generation, seq })}`;
    violations.push(`${place} is lost: it was ${id}, written by ${ledger.writersOf(id).map(show).join(" | ")}`);
  }
  return violations;
}

function checkDuplicates({ history }: Ledger, life: Incarnation, { ids, next }: Live): string[] {
  // Where retention has trimmed, a missing message proves nothing.
  if (next.seq - ids.length > (life.base ?? 0)) return [];
  const isMissing = ({ op, result }: Call): boolean =>
    op.kind === "append" &&
    op.path === life.path &&
    result.kind === "done" &&
    result.next?.generation === life.generation &&
    op.ids.some((id) => !life.seqs.has(id));
  return history.calls.filter(isMissing).map((call) => `acknowledged, and not there: ${show(call)}`);
}
