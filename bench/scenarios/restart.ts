// restart: a server with 1 GB of messages over 100 streams is killed with SIGKILL while it takes writes, and started again. The
// time is from spawn to the ready line. Every round adds a second of load, so that there is always an unfinished journal to
// replay. It then reads from the restarted server, to prove the ready line.

import { setTimeout as sleep } from "node:timers/promises";
import type { RunningServer } from "../child.ts";
import { createStreams, fillRoundRobin, streamPath } from "../load/fill.ts";
import { HttpConnection } from "../load/http-connection.ts";
import { ownTarget } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";

const MOST_SECONDS = 3;
const STREAMS = 100;
const FULL_BYTES = 1_000_000_000;
const QUICK_BYTES = 10_000_000;
const MESSAGE_BYTES = 256;

export const restart: Scenario = {
  name: "restart",
  title: "kill and restart with 1 GB of data",
  needsWrk: false,
  run: runRestart,
};

async function runRestart(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const directory = bench.freshDirectory("restart");
  const paths = Array.from({ length: STREAMS }, (_, i) => streamPath(`restart/${i}`));
  let server = await bench.startOurs(directory);
  await createStreams(server.url, paths, "application/json");
  const wanted = (bench.options.quick ? QUICK_BYTES : FULL_BYTES) / MESSAGE_BYTES / STREAMS;
  const filled = await fillRoundRobin(server.url, paths, wanted);
  bench.log(`filled with ${(filled.bytes / 1e9).toFixed(2)} GB in ${filled.messages} messages`);

  const seconds: number[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    await killUnderLoad(server, paths, bench.options.quick ? 200 : 1000);
    server = await bench.startOurs(directory);
    await checkReadable(server, paths);
    seconds.push(server.readyMs / 1000);
    bench.log(`round ${round + 1}: ready after ${(server.readyMs / 1000).toFixed(2)} s`);
  }
  await server.stop();
  const figure = { contender: OURS, what: "SIGKILL to ready, restart only", unit: "s", values: seconds };
  outcome.figures.push(figure);
  outcome.targets.push(ownTarget(figure, "<=", MOST_SECONDS));
  return outcome;
}

/** Appends from many connections and kills the server meanwhile. */
async function killUnderLoad(server: RunningServer, paths: readonly string[], afterMs: number): Promise<void> {
  let killed = false;
  const appending = fillRoundRobin(server.url, paths, Number.MAX_SAFE_INTEGER / paths.length).catch(
    (error: unknown) => {
      if (!killed) throw error;
    },
  );
  await Promise.race([sleep(afterMs), appending]);
  killed = true;
  await server.kill();
  await appending;
}

async function checkReadable(server: RunningServer, paths: readonly string[]): Promise<void> {
  const connection = await HttpConnection.open(server.url);
  for (const path of paths) {
    const reply = await connection.send({ method: "HEAD", path });
    if (reply.status !== 200) throw new Error(`HEAD ${path} answered ${reply.status} after the restart`);
  }
  connection.close();
}
