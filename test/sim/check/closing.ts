/**
 * Closing is final: a closed stream never grows, never appears open again in the same life, and was closed by a call. All
 * checkers take the ledger; index.ts calls them.
 *
 * Invariants: a page may lag, so a page without the closed mark is wrong only if the closing was known before its request.
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
    violations.push(`${life.path} is closed, and no call has closed it: ${show(first.call)}`);
  }
  return violations;
}

function mayClose({ op, result, invoked }: Call, path: string, before: number): boolean {
  if (op.path !== path || invoked.tick > before) return false;
  if (result.kind !== "done" && result.kind !== "unknown") return false;
  return (op.kind === "append" && op.close) || (op.kind === "create" && op.closed);
}
