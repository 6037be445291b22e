// channels-publish: 1,000 channels at 10 publishes per second each, for a minute, through 1,000 connections: the p99 from a
// publish's due time to its answer; any 5xx is a fault. channels-first-token: one channel after another at low load, each with a
// waiting reader: the p99 from the first token's due time to its arrival at the reader.

import { setTimeout as sleep } from "node:timers/promises";
import { ChannelPublishers, messageBody, publishPath } from "../load/channel-publishers.ts";
import { HttpConnection } from "../load/http-connection.ts";
import { ownTarget } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, recordTrouble, type Scenario } from "../scenario.ts";
import { percentile } from "../statistics.ts";

const PUBLISHES_PER_SECOND = 10;
const MOST_PUBLISH_P99_MS = 50;
const MOST_FIRST_TOKEN_P99_MS = 20;
const FIRST_TOKEN_EVERY_MS = 20;
const PATIENCE_MS = 10_000;

export const channelsPublish: Scenario = {
  name: "channels-publish",
  title: "1,000 channels at 10 publishes/s each",
  needsWrk: false,
  run: runPublish,
};

export const channelsFirstToken: Scenario = {
  name: "channels-first-token",
  title: "First token of a channel to its reader, at low load",
  needsWrk: false,
  run: runFirstToken,
};

async function runPublish(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const { quick } = bench.options;
  const channels = quick ? 100 : 1_000;
  const seconds = quick ? 2 : bench.options.sustainedSeconds || 60;
  const directory = bench.freshDirectory("channels");
  const server = await bench.startOurs(directory);
  const publishers = await ChannelPublishers.open(server.url, "answer", channels);
  await publishers.run(PUBLISHES_PER_SECOND, quick ? 0.5 : 2);
  const { latenciesMs, accepted, serverErrors, others } = await publishers.run(PUBLISHES_PER_SECOND, seconds);
  publishers.close();
  await server.stop();
  bench.removeDirectory(directory);

  const sorted = latenciesMs.sort();
  const [p50, p99, highest] = [50, 99, 100].map((percent) => percentile(sorted, percent));
  bench.log(
    `${accepted} accepted in ${seconds} s; p50 ${p50!.toFixed(2)}, p99 ${p99!.toFixed(2)}, highest ${highest!.toFixed(2)} ms`,
  );
  if (serverErrors > 0) recordTrouble(outcome, OURS, `${serverErrors} publishes were answered with 5xx.`);
  for (const [status, count] of others)
    recordTrouble(outcome, OURS, `${count} publishes were answered with ${status}.`);
  const figure = (what: string, unit: string, value: number) => ({ contender: OURS, what, unit, values: [value] });
  const latency = figure("p99 from due to acknowledged", "ms", p99!);
  outcome.figures.push(latency, figure("p50 from due to acknowledged", "ms", p50!));
  outcome.figures.push(figure("publishes", "publishes/s", accepted / seconds), figure("5xx", "answers", serverErrors));
  outcome.targets.push(ownTarget(latency, "<=", MOST_PUBLISH_P99_MS));
  return outcome;
}

async function runFirstToken(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const directory = bench.freshDirectory("first-token");
  const server = await bench.startOurs(directory);
  const publisher = await HttpConnection.open(server.url);
  const values: number[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    const count = Math.ceil((bench.options.seconds * 1000) / FIRST_TOKEN_EVERY_MS / 2);
    const latenciesMs: number[] = [];
    for (let i = 0; i < count; i++) latenciesMs.push(await firstToken(server.url, publisher, `r${round}-${i}`));
    const sorted = Float64Array.from(latenciesMs).sort();
    values.push(percentile(sorted, 99));
    bench.log(`round ${round + 1}: p50 ${percentile(sorted, 50).toFixed(2)}, p99 ${values.at(-1)!.toFixed(2)} ms`);
  }
  publisher.close();
  await server.stop();
  bench.removeDirectory(directory);
  const figure = { contender: OURS, what: "p99 from the first token's publish to its reader", unit: "ms", values };
  outcome.figures.push(figure);
  outcome.targets.push(ownTarget(figure, "<=", MOST_FIRST_TOKEN_P99_MS));
  return outcome;
}

/** A reader waits for a channel; START and the first token come in one request each, and the token is timed. */
async function firstToken(url: URL, publisher: HttpConnection, channel: string): Promise<number> {
  const reader = await HttpConnection.open(url);
  let seen = "";
  let wake: () => void = () => {};
  const path = `/v1/default/channels/${channel}/events?wait=true`;
  const over = reader
    .send({
      method: "GET",
      path,
      onBody: (piece) => {
        seen += piece.toString("latin1");
        wake();
      },
    })
    .catch(() => undefined);
  const shows = (text: string) =>
    new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the reader of ${channel} was not shown ${text}`)), PATIENCE_MS);
      wake = () => {
        if (!seen.includes(text)) return;
        clearTimeout(timer);
        resolve();
      };
      wake();
    });
  await publish(publisher, channel, "START", 0);
  await shows('"START"');
  await sleep(FIRST_TOKEN_EVERY_MS);
  const dueAt = performance.now();
  const [, tookMs] = await Promise.all([
    publish(publisher, channel, "DELTA", 1),
    shows('"DELTA"').then(() => performance.now() - dueAt),
  ]);
  await publish(publisher, channel, "END", 2);
  await over;
  reader.close();
  return tookMs;
}

async function publish(
  connection: HttpConnection,
  channel: string,
  phase: "START" | "DELTA" | "END",
  sequence: number,
): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  const body = messageBody(phase, sequence, "token");
  const { status } = await connection.send({ method: "POST", path: publishPath(channel), headers, body });
  if (status !== 202) throw new Error(`${phase} of ${channel} answered ${status}`);
}
