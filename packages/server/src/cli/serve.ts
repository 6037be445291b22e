/** `sluice serve`: runs the server until a signal ends it. */
import type { Command } from "commander";
import type { RunningServer } from "../compose.ts";
import { exposureOf } from "../config/cross-checks.ts";
import { ConfigError } from "../config/problem.ts";
import type { Settings } from "../config/schema.ts";
import { EngineError } from "../engine/contract.ts";
import { DirectoryInUse } from "../engine/disk/lock.ts";
import { CliError, EXIT } from "./exit.ts";
import { examples } from "./help.ts";
import { addSettingOptions, settingsOf } from "./settings-options.ts";
import { say } from "./terminal.ts";

/**
 * Signals this close together count as one: Ctrl-C in a terminal reaches the server and npm, and npm passes its own on.
 */
const SAME_SIGNAL_MS = 1_000;

export function addServe(program: Command): void {
  const command = program.command("serve").description("run the server until SIGTERM or SIGINT").action(serve);
  addSettingOptions(command);
  examples(command, [
    ["sluice serve", "on http://127.0.0.1:4437, data in ./sluice-data"],
    ["sluice serve --port 8080 --data /var/lib/sluice", "another port and directory"],
    ["sluice serve --memory", "for a test: the data is lost at the end"],
    ["SLUICE_SECRET_default=… sluice serve --host 0.0.0.0", "for other machines, with tokens"],
    ["sluice serve --config sluice.yaml --set stream.bodyBytes=1048576", "a file, and one setting over it"],
  ]);
}

async function serve(_options: unknown, command: Command): Promise<void> {
  const { settings } = settingsOf(command);
  const server = await start(settings);
  let askedAt: number | undefined;
  const stop = async () => {
    const now = performance.now();
    askedAt ??= now;
    if (now - askedAt > SAME_SIGNAL_MS) endAtOnce();
    if (now > askedAt) return;
    await server.close();
    process.exit(0);
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  // An uncaught fault must not leave a half-dead server behind. After a restart every acknowledged message is there.
  for (const event of ["uncaughtException", "unhandledRejection"] as const) {
    process.on(event, (fault: unknown) => {
      server.lastWords(event, fault);
      endAtOnce();
    });
  }
  // Last, because a supervisor may send a signal as soon as it has read this line.
  process.stdout.write(`sluice ready ${server.url}\n`);
}

async function start(settings: Settings): Promise<RunningServer> {
  const exposure = exposureOf(settings);
  if (exposure.kind === "refused") throw new ConfigError([exposure.why]);
  try {
    // The other commands do not load the server, so they start sooner.
    const { createServer } = await import("../compose.ts");
    const server = await createServer({ ...settings, grpcPort: settings.grpcPort ?? "auto" });
    if (exposure.kind === "local") {
      say(
        "no keys are configured: every program on this machine may read and write everything, and no other machine can",
      );
    }
    return server;
  } catch (fault) {
    if (fault instanceof ConfigError) throw fault;
    const code = fault instanceof DirectoryInUse ? EXIT.conflict : EXIT.failure;
    throw new CliError(code, `the server cannot start: ${reason(fault)}`);
  }
}

/** Adds what to do, for faults that a flag can fix. */
function reason(fault: unknown): string {
  if (fault instanceof EngineError) return fault.explanation;
  const { code, message } = fault as NodeJS.ErrnoException;
  if (code === "EADDRINUSE") return `${message}; choose another with --port, or 0 for any`;
  if (code === "EACCES") return `${message}; choose one from 1024 with --port`;
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") return `${message}; see --host`;
  return message;
}

/** An ordinary exit waits for the store's thread, which may be in the middle of a transaction, and then never ends. */
function endAtOnce(): never {
  process.kill(process.pid, "SIGKILL");
  throw new Error("unreachable");
}
