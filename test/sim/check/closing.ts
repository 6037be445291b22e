/**
 * Closing is for good: a closed stream never grows, is never seen open again in the same life, and was closed by somebody.
 * A page may be a little behind: one that is not told to be closed is wrong only if the closing was known before it was
 * asked for.
 */
import { type Call, show, showPosition } from "../history.ts";
import type { Incarnation, Ledger } from "./ledger.ts";
import { type Observation, observe } from "./observations.ts";

export function checkClosing(ledger: Ledger): string[] {
  const violations: string[] = [];
  const observations = observe(ledger);
  for (const path of ledger.paths) {
    for (const life of ledger.incarnationsOf(path)) {
      const own = observations.filter((one) => one.path === path && one.position.generation === life.generation);
      violations.push(...checkLife(ledger, life, own));
    }
  }
  return violations;
}

function checkLife(ledger: Ledger, life: Incarnation, observations: readonly Observation[]): string[] {
  const violations: string[] = [];
  const closed = observations.filter((one) => one.closed === true);
  const first = closed.reduce<Observation | undefined>((a, b) => (a && a.returned <= b.returned ? a : b), undefined);
  if (first === undefined) return [];
  const beyond = Math.max(...life.ids.keys());
  if (beyond > first.position.seq) {
    const at = showPosition({ generation: life.generation, seq: beyond });
    violations.push(`${life.path} was closed and has a message at ${at}: ${show(first.call)}`);
  }
  for (const one of observations) {
    if (one.closed === false && one.invoked > first.returned) {
      violations.push(`${life.path} was closed and then open: ${show(first.call)} | ${show(one.call)}`);
    }
  }
  if (!ledger.history.calls.some((call) => mayClose(call, life.path, first.returned))) {
    violations.push(`${life.path} is closed, and nobody has closed it: ${show(first.call)}`);
  }
  return violations;
}

function mayClose({ op, result, invoked }: Call, path: string, before: number): boolean {
  if (op.path !== path || invoked.tick > before) return false;
  if (result.kind !== "done" && result.kind !== "unknown") return false;
  return (op.kind === "append" && op.close) || (op.kind === "create" && op.closed);
}
