// small-read: a GET at the end of a stream, which answers an empty page; 64 connections, one request in flight on each. The peer
// is bare `node:http` that answers as many bytes, head included. fetch-append: one message per request through `fetch`, 64 at a
// time. In both, Sluice without its lane is a contender too.

import type { RunningServer } from "../child.ts";
import { createStreams, streamPath } from "../load/fill.ts";
import { plainMessage } from "../load/message.ts";
import { runGets } from "../load/wrk.ts";
import { BARE_HTTP, startBareHttp } from "../peers/bare-http.ts";
import { ratioTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";

const LEAST_OF_BARE = 0.9;
const LEAST_OF_OFF = 1.1;
const CONNECTIONS = 64;
const WITHOUT_LANE = `${OURS} without the lane`;

export const smallRead: Scenario = {
  name: "small-read",
  title: "GET of an empty page at the end of a stream, 64 connections",
  needsWrk: true,
  run: runSmallRead,
};

export const fetchAppend: Scenario = {
  name: "fetch-append",
  title: "append through fetch, 64 requests at a time, 1 stream",
  needsWrk: false,
  run: runFetchAppend,
};

async function startBoth(bench: Bench, contentType: string): Promise<[RunningServer, RunningServer]> {
  const ours = await bench.startOurs(bench.freshDirectory("with-lane"));
  const without = await bench.startOurs(bench.freshDirectory("without-lane"), [], ["--set", "http.lane=false"]);
  for (const { url } of [ours, without]) await createStreams(url, [streamPath(0)], contentType, 1);
  return [ours, without];
}

async function runSmallRead(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const target = `${streamPath(0)}?offset=now`;
  const { seconds } = bench.options;
  const [ours, without] = await startBoth(bench, "application/json");
  const bytes = await bytesOf(new URL(target, ours.url));
  const bare = await startBareHttp(bytes);
  const contenders = [
    { name: OURS, run: () => runGets(ours.url, target, seconds) },
    { name: BARE_HTTP, run: () => runGets(bare.url, target, seconds) },
    { name: WITHOUT_LANE, run: () => runGets(without.url, target, seconds) },
  ];
  for (const { run } of contenders) await run();
  const { figures, comparisons } = await takeTurns(bench, "reads answered", "requests/s", contenders);
  for (const server of [ours, without, bare]) await server.stop();
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  outcome.targets.push(ratioTarget(comparisons.find(({ peer }) => peer === BARE_HTTP)!, LEAST_OF_BARE));
  outcome.notes.push(`An answer has ${bytes} bytes.`);
  return outcome;
}

/** The bytes of an answer, head included, as far as `fetch` tells them. */
async function bytesOf(url: URL): Promise<number> {
  const response = await fetch(url);
  const body = await response.arrayBuffer();
  let bytes = "HTTP/1.1 200 OK\r\n\r\n".length + body.byteLength;
  for (const [name, value] of response.headers) bytes += `${name}: ${value}\r\n`.length;
  return bytes;
}

async function runFetchAppend(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const [ours, without] = await startBoth(bench, "application/octet-stream");
  const contenders = [
    { name: OURS, run: () => fetchFor(ours, bench.options.seconds) },
    { name: WITHOUT_LANE, run: () => fetchFor(without, bench.options.seconds) },
  ];
  for (const { run } of contenders) await run();
  const { figures, comparisons } = await takeTurns(bench, "appends acknowledged", "messages/s", contenders);
  for (const server of [ours, without]) await server.stop();
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  outcome.targets.push(ratioTarget(comparisons[0]!, LEAST_OF_OFF));
  return outcome;
}

async function fetchFor(server: RunningServer, seconds: number): Promise<number> {
  const url = new URL(streamPath(0), server.url);
  const init = { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: plainMessage(1) };
  const startedAt = performance.now();
  let acknowledged = 0;
  const work = async () => {
    while (performance.now() - startedAt < seconds * 1000) {
      const response = await fetch(url, init);
      if (response.status !== 204) throw new Error(`an append was answered ${response.status}`);
      acknowledged++;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  return acknowledged / ((performance.now() - startedAt) / 1000);
}
