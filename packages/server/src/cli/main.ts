/** The command line. One file per command; this one picks it. */
import { serve } from "./serve.ts";

const HELP = `sluice: one durable log, every way to subscribe

  sluice serve [--host 127.0.0.1] [--port 4437] [--data ./sluice-data | --memory]
               [--drain-ms 10000] [--long-poll-ms 20000]

  sluice --help      this text
`;

export async function main(args: readonly string[]): Promise<void> {
  const [command, ...rest] = args;
  if (command === "serve") return serve(rest);
  if (command === undefined || command === "--help" || command === "help") {
    process.stdout.write(HELP);
    return;
  }
  process.stderr.write(`sluice: there is no command ${command}\n\n${HELP}`);
  process.exitCode = 2;
}
