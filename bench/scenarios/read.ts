// read-alone and read-interleaved: catch-up of a stream of 100,000 JSON messages by one client, in MB/s of payload. Alone, the
// data directory holds that one stream, and it is read again and again. Interleaved, a hundred such streams were written
// round-robin, and each catch-up reads another one, so that no read helps the next. Servers restart between filling and reading,
// so that only the system's page cache is warm.

import type { RunningServer } from "../child.ts";
import { catchUp } from "../load/catch-up.ts";
import { createStreams, fillRoundRobin, streamPath } from "../load/fill.ts";
import { HttpConnection } from "../load/http-connection.ts";
import { MESSAGE_BYTES } from "../load/message.ts";
import { DURABLE_STREAMS, startDurableStreams } from "../peers/durable-streams.ts";
import { ratioTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";

const LEAST_RATIO = 3;

export const readAlone: Scenario = {
  name: "read-alone",
  title: "catch-up read of 100,000 messages, the only stream",
  needsWrk: false,
  run: (bench) => runRead(bench, 1),
};

export const readInterleaved: Scenario = {
  name: "read-interleaved",
  title: "catch-up read of 100,000 messages, written round-robin with 99 other streams",
  needsWrk: false,
  run: (bench) => runRead(bench, 100),
};

async function runRead(bench: Bench, streams: number): Promise<Outcome> {
  const outcome = emptyOutcome();
  const messages = bench.options.quick ? 2_000 : 100_000;
  const paths = Array.from({ length: streams }, (_, i) => streamPath(i));
  const ours = await prepare(bench, OURS, (directory) => bench.startOurs(directory), paths, messages);
  const peer = await prepare(bench, DURABLE_STREAMS, startDurableStreams, paths, messages);

  const { figures, comparisons } = await takeTurns(bench, "catch-up read", "MB/s", [
    { name: OURS, run: () => readFor(ours, paths, messages, bench.options.seconds) },
    { name: DURABLE_STREAMS, run: () => readFor(peer, paths, messages, bench.options.seconds) },
  ]);
  await ours.stop();
  await peer.stop();
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  outcome.targets.push(ratioTarget(comparisons[0]!, LEAST_RATIO));
  return outcome;
}

async function prepare(
  bench: Bench,
  name: string,
  start: (directory: string) => Promise<RunningServer>,
  paths: readonly string[],
  messages: number,
): Promise<RunningServer> {
  const directory = bench.freshDirectory("read");
  const filling = await start(directory);
  const startedAt = performance.now();
  await createStreams(filling.url, paths, "application/json", Math.min(paths.length, 8));
  await fillRoundRobin(filling.url, paths, messages);
  await filling.stop();
  bench.log(`${name}: filled in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  const reading = await start(directory);
  // Warms the code paths once, because the first round would otherwise measure the compiler.
  await readFor(reading, paths, messages, bench.options.quick ? 0 : 1);
  return reading;
}

/** Catches up with one stream after another until the time is over, and at least once. */
async function readFor(
  server: RunningServer,
  paths: readonly string[],
  messages: number,
  seconds: number,
): Promise<number> {
  const connection = await HttpConnection.open(server.url);
  const startedAt = performance.now();
  let payloadBytes = 0;
  let elapsedMs = 0;
  for (let i = 0; i === 0 || elapsedMs < seconds * 1000; i++) {
    const path = paths[i % paths.length]!;
    const read = await catchUp(connection, path);
    if (read.messages !== messages) throw new Error(`${path} gave ${read.messages} messages instead of ${messages}`);
    payloadBytes += read.messages * MESSAGE_BYTES;
    elapsedMs = performance.now() - startedAt;
  }
  connection.close();
  return payloadBytes / 1e6 / (elapsedMs / 1000);
}
