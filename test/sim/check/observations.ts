/**
 * Each call's statement about the end of its stream, in one shape for the checkers. At some moment of this interval the
 * stream lived in this generation and ended here (or had come at least this far), open or closed.
 */
import type { Position } from "@sluice/protocol";
import type { Call, Read, Result } from "../history.ts";
import { isWrite, type Ledger, type Mutation, wrote } from "./ledger.ts";

export interface Observation {
  readonly call: Call;
  readonly path: string;
  readonly position: Position;
  /** `write`: it made the stream end here. `tail`: it found the end here. `floor`: it found the end here or later. */
  readonly role: "write" | "tail" | "floor";
  /** Whether the answer said closed; undefined where it does not say. */
  readonly closed: boolean | undefined;
  readonly invoked: number;
  readonly returned: number;
}

const known = new WeakMap<Ledger, readonly Observation[]>();

export function observe(ledger: Ledger): readonly Observation[] {
  let observations = known.get(ledger);
  if (observations === undefined) {
    observations = findAll(ledger);
    known.set(ledger, observations);
  }
  return observations;
}

function findAll(ledger: Ledger): Observation[] {
  const found = ledger.mutations.map(ofMutation);
  for (const call of ledger.history.calls) found.push(...ofCall(ledger, call));
  return found.filter(({ position }) => position.generation > 0);
}

export function byPath(observations: readonly Observation[]): Map<string, Observation[]> {
  const groups = new Map<string, Observation[]>();
  for (const one of observations) {
    const group = groups.get(one.path);
    if (group) group.push(one);
    else groups.set(one.path, [one]);
  }
  return groups;
}

function ofMutation({ call, incarnation, lastSeq, invoked, returned }: Mutation): Observation {
  const position = { generation: incarnation.generation, seq: lastSeq };
  const closes = call.op.kind === "create" ? call.op.closed : call.op.close;
  return { call, path: incarnation.path, position, role: "write", closed: closes || undefined, invoked, returned };
}

function ofCall(ledger: Ledger, call: Call): Observation[] {
  const { op, result, returned } = call;
  if (returned === undefined) return [];
  const base = { call, invoked: call.invoked.tick, returned: returned.tick };
  if (result.kind === "done" && result.listed) {
    return result.listed.map(({ path, next, closed }) => ({ ...base, path, position: next, role: "tail", closed }));
  }
  const position = "next" in result ? result.next : undefined;
  // The ledger already has the mutation of a write.
  if (position === undefined || (isWrite(call) && wrote(call))) return [];
  // A page of a fork without messages of its own tells nothing about the fork's end.
  if (op.kind === "read" && result.kind === "done" && !ledger.lifeOfPage(call as Call<Read>)) return [];
  const role = op.kind === "read" && result.kind === "done" && !result.upToDate ? "floor" : "tail";
  return [{ ...base, path: op.path, position, role, closed: closedIn(call, result) }];
}

function closedIn({ op }: Call, result: Result): boolean | undefined {
  if (result.kind === "refused") return result.code === "stream-closed" ? true : undefined;
  if (result.kind !== "done") return undefined;
  // A page before the tail does not tell.
  if (op.kind === "read" && !result.upToDate) return undefined;
  return result.closed;
}
