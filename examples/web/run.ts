/** The common part of every example's `main.ts`: starts the example, prints the address of the page, and stops on Ctrl-C. */
import { parseArgs } from "node:util";

export interface Startable {
  readonly url: string;
  close(): Promise<void>;
}

const PATIENCE_MS = 5_000;

export async function runExample(name: string, start: (port: number) => Promise<Startable>): Promise<void> {
  const { values } = parseArgs({ options: { port: { type: "string", default: "0" } } });
  const port = Number(values.port);
  if (!/^\d+$/.test(values.port) || port > 65_535) {
    console.error(`--port: ${values.port} is not a port`);
    process.exit(2);
  }
  const example = await start(port).catch((error: Error) => {
    console.error(`${name}: ${error.message}`);
    process.exit(1);
  });
  console.log(`${name}: open ${example.url}`);

  let isStopping = false;
  const stop = async () => {
    // Ctrl-C arrives twice: from the terminal, and from the script that started this process.
    if (isStopping) return;
    isStopping = true;
    setTimeout(() => process.exit(1), PATIENCE_MS).unref();
    await example.close();
    process.exit(0);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, stop);
}
