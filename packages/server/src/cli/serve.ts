/** `sluice serve`: runs the server until a signal ends it. */
import { parseArgs } from "node:util";
import { createServer, DEFAULTS, type ServerOptions } from "../compose.ts";

const OPTIONS = {
  host: { type: "string" },
  port: { type: "string" },
  data: { type: "string" },
  memory: { type: "boolean" },
  "drain-ms": { type: "string" },
  "long-poll-ms": { type: "string" },
} as const;

export async function serve(args: readonly string[]): Promise<void> {
  let options: Partial<ServerOptions>;
  try {
    options = parse(args);
  } catch (error) {
    process.stderr.write(`sluice serve: ${(error as Error).message}\n`);
    process.exitCode = 2;
    return;
  }
  let server: Awaited<ReturnType<typeof createServer>>;
  try {
    server = await createServer(options);
  } catch (error) {
    process.stderr.write(`sluice serve: ${(error as Error).message}\n`);
    process.exitCode = 1;
    return;
  }
  process.stdout.write(`sluice ready ${server.url}\n`);

  let signals = 0;
  const stop = async () => {
    if (++signals > 1) endAtOnce();
    await server.close();
    process.exit(0);
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  // What nobody caught must not leave a half-dead server behind; after a restart everything acknowledged is there.
  for (const event of ["uncaughtException", "unhandledRejection"] as const) {
    process.on(event, (fault: unknown) => {
      server.lastWords(event, fault);
      endAtOnce();
    });
  }
}

/** An ordinary exit waits for the store's thread, which may be in the middle of a transaction, and then never ends. */
function endAtOnce(): never {
  process.kill(process.pid, "SIGKILL");
  throw new Error("unreachable");
}

function parse(args: readonly string[]): Partial<ServerOptions> {
  const { values } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: false });
  if (values.memory && values.data !== undefined) throw new Error("--memory and --data exclude each other");
  return {
    host: values.host ?? DEFAULTS.host,
    port: count("--port", values.port, 65_535) ?? DEFAULTS.port,
    data: values.memory ? undefined : (values.data ?? DEFAULTS.data),
    drainMs: count("--drain-ms", values["drain-ms"], 3_600_000) ?? DEFAULTS.drainMs,
    longPollMs: count("--long-poll-ms", values["long-poll-ms"], 3_600_000) ?? DEFAULTS.longPollMs,
  };
}

function count(name: string, text: string | undefined, max: number): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > max)
    throw new Error(`${name} must be a whole number from 0 to ${max}, not ${text}`);
  return value;
}
