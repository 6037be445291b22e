/**
 * Runs a command line and decides how the process ends. Called by the executable.
 *
 * Invariants: every error is one clear line; only a defect of the program prints a stack.
 */
import { readFileSync } from "node:fs";
import { CommanderError } from "commander";
import { ConfigError } from "../config/problem.ts";
import { EXIT } from "./exit.ts";
import { failureOf, isFailure } from "./failure.ts";
import { buildProgram, WELCOME } from "./program.ts";
import { complain, endQuietlyWithOurReader, line } from "./terminal.ts";

export async function main(args: readonly string[]): Promise<void> {
  endQuietlyWithOurReader();
  try {
    if (args.length === 0) await line(WELCOME);
    else await buildProgram(versionOf()).parseAsync(asked(args), { from: "user" });
  } catch (fault) {
    process.exitCode = endOf(fault);
  }
}

/** `help stream create` is the same as `stream create --help`. */
function asked(args: readonly string[]): string[] {
  const [first, ...rest] = args;
  return first === "help" && rest.length > 1 ? [...rest, "--help"] : [...args];
}

function versionOf(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

function endOf(fault: unknown): number {
  // Commander has printed its message already. Requested help is not an error.
  if (fault instanceof CommanderError) return fault.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (fault instanceof ConfigError) {
    for (const problem of fault.problems) complain(problem);
    return EXIT.usage;
  }
  if (isFailure(fault)) {
    const { exitCode, message } = failureOf(fault);
    if (exitCode !== EXIT.ok) complain(message);
    return exitCode;
  }
  // System errors name their cause by themselves.
  if (fault instanceof Error && "syscall" in fault && "code" in fault) {
    complain(fault.message);
    return EXIT.failure;
  }
  complain(fault instanceof Error ? (fault.stack ?? fault.message) : String(fault));
  return EXIT.failure;
}
