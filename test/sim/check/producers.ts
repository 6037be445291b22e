/**
 * Checks writers that number their messages. Called by index.ts.
 *
 * Invariants: within a life of a stream a producer's messages lie in the order of (epoch, sequence), each once, an epoch
 * without a gap from 0 on. Stream-Seq only grows. An answer never reports a lower sequence than the request carried.
 */
import { type Append, type Call, show } from "../history.ts";
import type { Incarnation, Ledger, Mutation } from "./ledger.ts";

export function checkProducers(ledger: Ledger): string[] {
  const violations: string[] = [];
  for (const path of ledger.paths) {
    for (const life of ledger.incarnationsOf(path)) {
      const appends = ledger.mutations.filter((one) => one.incarnation === life && one.call.op.kind === "append");
      appends.sort((a, b) => a.firstSeq - b.firstSeq);
      violations.push(...checkTriples(ledger, life, appends), ...checkSequence(appends));
    }
  }
  for (const { op, result, ...call } of ledger.history.calls) {
    if (op.kind !== "append" || !op.producer || result.kind !== "done") continue;
    if (result.producerSeq === undefined || result.producerSeq < op.producer.seq) {
      violations.push(`the server says that it has less than it took: ${show({ op, result, ...call })}`);
    }
  }
  return violations;
}

function checkTriples(ledger: Ledger, life: Incarnation, appends: readonly Mutation[]): string[] {
  const violations: string[] = [];
  const last = new Map<string, Call<Append>>();
  const isWhole = isFullyKnown(ledger, life);
  for (const { call } of appends as readonly (Mutation & { call: Call<Append> })[]) {
    const { producer } = call.op;
    if (producer === undefined) continue;
    const before = last.get(producer.id);
    last.set(producer.id, call);
    const previous = before?.op.producer;
    const isSameEpoch = previous?.epoch === producer.epoch;
    const follows = isSameEpoch
      ? producer.seq === previous.seq + 1 || (!isWhole && producer.seq > previous.seq)
      : (previous === undefined || producer.epoch > previous.epoch) && (producer.seq === 0 || !isWhole);
    if (follows) continue;
    violations.push(`a producer's messages are out of order: ${before ? show(before) : "nothing"} | ${show(call)}`);
  }
  return violations;
}

/** Whether every message that this life ever had was seen, so that a missing message never existed. */
function isFullyKnown({ history }: Ledger, life: Incarnation): boolean {
  const final = history.finals.get(life.path);
  if (final?.kind !== "live" || final.next.generation !== life.generation) return false;
  return final.next.seq - final.ids.length <= (life.base ?? -1);
}

function checkSequence(appends: readonly Mutation[]): string[] {
  const violations: string[] = [];
  let last: Call<Append> | undefined;
  for (const { call } of appends as readonly (Mutation & { call: Call<Append> })[]) {
    const { seq } = call.op;
    if (seq === undefined) continue;
    if (last?.op.seq !== undefined && seq <= last.op.seq) {
      violations.push(`Stream-Seq did not grow: ${show(last)} | ${show(call)}`);
    }
    last = call;
  }
  return violations;
}
