/**
 * The common part of every example's `main.ts`: a Sluice server in a process of its own and a web server for the page. It prints the
 * address of the page, and stops everything on Ctrl-C.
 */
import { parseArgs } from "node:util";
import { PageServer } from "./page-server.ts";
import { SluiceProcess } from "./sluice-process.ts";

/** What an example runs on. */
export interface Stage {
  readonly web: PageServer;
  readonly sluiceUrl: string;
  /** The address of Sluice for browsers, when a proxy stands in between. */
  readonly publicUrl?: string | undefined;
}

export interface RunningExample {
  /** Ends what the example itself has under way. */
  close(): Promise<void>;
}

export interface RunOptions {
  /** The default port of the page. Sluice gets the next one. */
  readonly port: number;
  /** Further arguments of `sluice serve`. */
  readonly args?: readonly string[] | undefined;
}

const PATIENCE_MS = 5_000;

export async function runExample(
  name: string,
  options: RunOptions,
  start: (stage: Stage) => Promise<RunningExample | undefined>,
): Promise<void> {
  const { port, data } = placeOf(name, options.port);
  let isStopping = false;
  const closing: (() => Promise<void> | undefined)[] = [];
  const stop = async () => {
    // Ctrl-C arrives twice: from the terminal, and from the script that started this process.
    if (isStopping) return;
    isStopping = true;
    setTimeout(() => process.exit(1), PATIENCE_MS).unref();
    for (const close of closing.reverse()) await close();
    process.exit(0);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, stop);
  try {
    const web = await PageServer.listen(port);
    closing.push(() => web.close());
    const server = await SluiceProcess.start({ port: port === 0 ? 0 : port + 1, data, args: options.args });
    closing.push(() => server.close());
    web.on("/kill", server.onKill);
    const example = await start({ web, sluiceUrl: server.url });
    closing.push(async () => example?.close());
    console.log(`${name}: open ${web.url}`);
  } catch (error) {
    if (isStopping) return;
    console.error(`${name}: ${(error as Error).message}`);
    for (const close of closing.reverse()) await close();
    process.exit(1);
  }
}

function placeOf(name: string, defaultPort: number): { port: number; data: string } {
  const { values } = parseArgs({
    options: {
      port: { type: "string", default: String(defaultPort) },
      data: { type: "string", default: `.sluice-examples/${name}` },
    },
  });
  const port = Number(values.port);
  if (!/^\d+$/.test(values.port) || port > 65_534) {
    console.error(`--port: ${values.port} is not a port`);
    process.exit(2);
  }
  return { port, data: values.data };
}
