// Starts Sluice with its default settings: on disk, a sync before every acknowledgement. Scenarios reach it through
// Bench.startOurs. drainAndStop measures the work that acknowledgements leave behind the journal, so that a backlog cannot
// improve a figure.

import { setTimeout as sleep } from "node:timers/promises";
import { type RunningServer, startServer } from "../child.ts";
import { HttpConnection } from "../load/http-connection.ts";

/** A gauge: bytes in the journal that the store does not have yet. */
const LAG_METRIC = /^sluice_journal_lag_bytes(?:\{[^}]*\})? ([0-9.e+]+)$/m;
const DRAIN_LIMIT_MS = 120_000;

export function startSluice(
  program: string,
  dataDirectory: string,
  nodeArgs: readonly string[] = [],
  settings: readonly string[] = [],
) {
  const serve = ["serve", "--port", "0", "--data", dataDirectory, ...settings];
  return startServer(process.execPath, [...nodeArgs, program, ...serve]);
}

/** Waits until the store has all of the journal, stops the server and returns the seconds that this took. */
export async function drainAndStop(server: RunningServer): Promise<{ seconds: number; how: string }> {
  const startedAt = performance.now();
  let lag = await journalLag(server);
  if (lag === undefined) {
    return { seconds: (await server.stop()) / 1000, how: "shutdown (no lag metric)" };
  }
  while (lag !== undefined && lag > 0) {
    if (performance.now() - startedAt > DRAIN_LIMIT_MS) throw new Error(`${lag} bytes behind the journal after 2 min`);
    await sleep(20);
    lag = await journalLag(server);
  }
  const seconds = (performance.now() - startedAt) / 1000;
  await server.stop();
  return { seconds, how: "journal lag metric" };
}

async function journalLag(server: RunningServer): Promise<number | undefined> {
  const connection = await HttpConnection.open(server.url);
  let text = "";
  const reply = await connection.send({
    method: "GET",
    path: "/metrics",
    onBody: (piece) => {
      text += piece.toString("latin1");
    },
  });
  connection.close();
  const match = reply.status === 200 ? LAG_METRIC.exec(text) : null;
  return match ? Number(match[1]) : undefined;
}
