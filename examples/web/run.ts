/**
 * The common part of every example's `main.ts`: reads `--port` and `--data`, starts the example, prints the address of the page,
 * and stops on Ctrl-C.
 */
import { parseArgs } from "node:util";

export interface Startable {
  readonly url: string;
  close(): Promise<void>;
}

/** Where an example listens and keeps its data. */
export interface Place {
  /** The port of the page; 0 takes a free one. */
  readonly port: number;
  /** The port of Sluice. */
  readonly sluicePort: number;
  /** The directory of the server's data. */
  readonly data: string;
}

const PATIENCE_MS = 5_000;

export async function runExample(
  name: string,
  defaultPort: number,
  start: (place: Place) => Promise<Startable>,
): Promise<void> {
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
  const place = { port, sluicePort: port === 0 ? 0 : port + 1, data: values.data };
  const example = await start(place).catch((error: Error) => {
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
