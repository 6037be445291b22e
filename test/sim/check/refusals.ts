/**
 * Every refusal needs a state, somewhere within the call, that justifies it. life.ts checks refusals about absence,
 * closing.ts about closure, retention.ts about trimmed messages; this file checks the rest. Called by index.ts.
 *
 * Invariants: clients of a scenario send nothing malformed and only offsets that they were given, so a refusal that blames
 * the request is wrong.
 */
import { type Append, type Call, type Refused, show } from "../history.ts";
import type { Ledger } from "./ledger.ts";

const CHECKED_ELSEWHERE = new Set([
  "stream-not-found",
  "stream-gone",
  "fork-source-gone",
  "stream-closed",
  "offset-trimmed",
]);

export function checkRefusals(ledger: Ledger): string[] {
  const violations: string[] = [];
  for (const call of ledger.history.calls) {
    if (call.result.kind !== "refused" || CHECKED_ELSEWHERE.has(call.result.code)) continue;
    if (!isJustified(ledger, call, call.result)) violations.push(`a refusal without a reason: ${show(call)}`);
  }
  return violations;
}

function isJustified(ledger: Ledger, call: Call, refused: Refused): boolean {
  const { op } = call;
  if (refused.code === "stream-exists") return mayExist(ledger, call);
  if (op.kind === "create" && op.fork) return mayHaveLeft(ledger, call, op.fork.source);
  if (op.kind !== "append") return false;
  const earlier = attempts(ledger, call as Call<Append>);
  const { producer, seq } = op;
  switch (refused.code) {
    case "sequence-regression":
      return earlier.some(({ op }) => op.seq !== undefined && op.seq >= seq!);
    case "producer-fenced":
      return earlier.some(({ op }) => op.producer?.id === producer!.id && op.producer.epoch > producer!.epoch);
    case "producer-gap":
    case "producer-epoch-start":
      return mayMissPredecessor(ledger, call as Call<Append>);
    default:
      return false;
  }
}

/** A fork offset can be wrong only when its messages were trimmed, or belong to an earlier life of the source. */
function mayHaveLeft(ledger: Ledger, call: Call, source: string): boolean {
  return ledger.history.calls.some(({ op, result, invoked }) => {
    if (op.path !== source || invoked.tick > call.returned!.tick) return false;
    if (op.kind === "create") return op.retention !== undefined || op.ttlSeconds !== undefined || op.fork !== undefined;
    return op.kind === "delete" && (result.kind === "done" || result.kind === "unknown");
  });
}

/** Appends to the same path that may have happened before this one was answered. */
function attempts({ history }: Ledger, { op, returned }: Call<Append>): Call<Append>[] {
  return history.calls.filter(
    (other): other is Call<Append> =>
      other.op.kind === "append" &&
      other.op.path === op.path &&
      (other.result.kind === "done" || other.result.kind === "unknown") &&
      other.invoked.tick < returned!.tick,
  );
}

/** A reported gap is wrong when the predecessor was acknowledged before, in a life that lasted beyond the answer. */
function mayMissPredecessor(ledger: Ledger, call: Call<Append>): boolean {
  const { id, epoch, seq } = call.op.producer!;
  const known = attempts(ledger, call).find(({ op: { producer }, result, returned }) => {
    const isPredecessor = producer?.id === id && producer.epoch === epoch && producer.seq === seq - 1;
    if (!isPredecessor || result.kind !== "done" || returned!.tick > call.invoked.tick) return false;
    const { generation } = result.next!;
    return ledger.mutations.some(
      ({ incarnation, invoked }) =>
        incarnation.path === call.op.path && incarnation.generation === generation && invoked > call.returned!.tick,
    );
  });
  return seq > 0 && known === undefined;
}

/** Whether an earlier call may have created the stream; a creation ended by an acknowledged delete does not count. */
function mayExist({ history }: Ledger, call: Call): boolean {
  const deletes = history.calls.filter(
    ({ op, result, returned }) =>
      op.kind === "delete" && op.path === call.op.path && result.kind === "done" && returned!.tick < call.invoked.tick,
  );
  const isKept = history.calls.some(({ op }) => op.kind === "create" && op.fork?.source === call.op.path);
  return history.calls.some(({ op, result, invoked, returned }) => {
    if (op.kind !== "create" || op.path !== call.op.path || invoked.tick > call.returned!.tick) return false;
    if (result.kind !== "done" && result.kind !== "unknown") return false;
    return isKept || !deletes.some((end) => (returned?.tick ?? Number.POSITIVE_INFINITY) < end.invoked.tick);
  });
}
