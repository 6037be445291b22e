/**
 * Runs a command line and decides how the process ends. Called by the executable.
 *
 * Invariants: every error is one clear line; only a defect of the program prints a stack.
 */
import { readFileSync } from "node:fs";
import { CommanderError } from "commander";
import { ConfigError } from "../config/problem.ts";
import { EXIT } from "./exit.ts";
import { programFor, WELCOME } from "./program.ts";
import { complain, endQuietlyWithOurReader, line } from "./terminal.ts";

export async function main(args: readonly string[]): Promise<void> {
  endQuietlyWithOurReader();
  try {
    if (args.length === 0) await line(WELCOME);
    else await run(asked(args));
  } catch (fault) {
    process.exitCode = await endOf(fault);
  }
}

async function run(args: readonly string[]): Promise<void> {
  const program = await programFor(args, versionOf());
  await program.parseAsync(args, { from: "user" });
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

async function endOf(fault: unknown): Promise<number> {
  // Commander has printed its message already. Requested help is not an error.
  if (fault instanceof CommanderError) return fault.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (fault instanceof ConfigError) {
    for (const problem of fault.problems) complain(problem);
    return EXIT.usage;
  }
  // It loads the client, which `serve` does without.
  const { explained } = await import("./failure.ts");
  const failure = explained(fault);
  if (failure !== undefined) {
    if (failure.exitCode !== EXIT.ok) complain(failure.message);
    return failure.exitCode;
  }
  // System errors name their cause by themselves.
  if (fault instanceof Error && "syscall" in fault && "code" in fault) {
    complain(fault.message);
    return EXIT.failure;
  }
  complain(fault instanceof Error ? (fault.stack ?? fault.message) : String(fault));
  return EXIT.failure;
}
