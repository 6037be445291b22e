/**
 * All checkers of a stream history. The stream scenarios and checkers.test.ts call them.
 *
 * Invariants: each is a pure function of the ledger; a violation names the checker and the calls that contradict each other.
 */
import type { History } from "../history.ts";
import { checkClosing } from "./closing.ts";
import { checkDurable } from "./durable.ts";
import { Ledger } from "./ledger.ts";
import { checkLife } from "./life.ts";
import { checkLinear } from "./linear.ts";
import { checkProducers } from "./producers.ts";
import { checkReaders } from "./readers.ts";
import { checkRefusals } from "./refusals.ts";
import { checkTrims } from "./retention.ts";

const CHECKERS: Readonly<Record<string, (ledger: Ledger) => string[]>> = {
  placement: ({ violations }) => violations,
  durable: checkDurable,
  linear: checkLinear,
  readers: checkReaders,
  closing: checkClosing,
  producers: checkProducers,
  life: checkLife,
  refusals: checkRefusals,
  retention: checkTrims,
};

export function checkStreams(history: History): string[] {
  const ledger = new Ledger(history);
  return Object.entries(CHECKERS).flatMap(([name, check]) =>
    check(ledger).map((violation) => `[${name}] ${violation}`),
  );
}
