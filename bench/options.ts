// The command line of the benchmark: scenarios, rounds, durations, data directory. main.ts parses it once.
//
// Invariants: scenarios take durations and sizes only from here, so a quick run shrinks everything together.

import { tmpdir } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";

export interface Options {
  readonly names: readonly string[];
  readonly rounds: number;
  /** The duration of one contender's load in one round. */
  readonly seconds: number;
  /** The duration of Sluice's uninterrupted load after the rounds; 0 leaves it out. */
  readonly sustainedSeconds: number;
  readonly quick: boolean;
  readonly directory: string;
  /** The program under test. It must understand `serve --port 0 --data DIR` and print the ready line. */
  readonly server: string;
  readonly list: boolean;
}

export const USAGE = `npm run bench -- [scenario…] [options]

  scenario…        names, or the first part of a name ("sse" runs every sse-…); all of them when left out
  --rounds N       rounds per scenario, ours and the peers taking turns (5)
  --seconds N      seconds of load per contender and round (10)
  --sustained N    seconds of the one long run of ours in the append scenarios (60; 0 leaves it out)
  --quick          two rounds of one second on small data: shows that the harness works, measures nothing
  --dir DIR        where the data directories are made and removed again (the system's temporary directory)
  --server FILE    another build to measure (packages/server/bin/sluice.js)
  --list           print the scenarios and stop`;

export const DEFAULT_SERVER = new URL("../packages/server/bin/sluice.js", import.meta.url).pathname;

export function parseOptions(argv: string[]): Options {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: {
      rounds: { type: "string" },
      seconds: { type: "string" },
      sustained: { type: "string" },
      quick: { type: "boolean", default: false },
      dir: { type: "string", default: tmpdir() },
      server: { type: "string", default: DEFAULT_SERVER },
      list: { type: "boolean", default: false },
    },
  });
  const quick = values.quick;
  return {
    names: positionals,
    rounds: wholeNumber("--rounds", values.rounds, quick ? 2 : 5, 1),
    seconds: wholeNumber("--seconds", values.seconds, quick ? 1 : 10, 1),
    sustainedSeconds: wholeNumber("--sustained", values.sustained, quick ? 0 : 60, 0),
    quick,
    directory: resolve(values.dir),
    server: resolve(values.server),
    list: values.list,
  };
}

function wholeNumber(flag: string, text: string | undefined, fallback: number, least: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!Number.isInteger(value) || value < least) throw new Error(`${flag} must be a whole number of at least ${least}`);
  return value;
}
