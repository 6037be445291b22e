// pull-google: Google's client publishes, pulls and acknowledges over gRPC, on disk. pull-library: the same with our own library in
// process, in memory. pull-leases: a million messages are out to one stream and not acknowledged; the memory of their leases.
// pull-expiry: 100,000 leases end at once; how long appends to another stream take meanwhile.

import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { PubSub } from "@sluice/client/pubsub";
import { WebSocket } from "ws";
import { type RunningServer, runToEnd } from "../child.ts";
import { HEAP_PROBE_ARGS, measureMemory } from "../load/heap.ts";
import { HttpConnection } from "../load/http-connection.ts";
import { plainMessage } from "../load/message.ts";
import { ownTarget } from "../rounds.ts";
import { type Bench, emptyOutcome, type Figure, OURS, type Outcome, type Scenario } from "../scenario.ts";
import { percentile } from "../statistics.ts";

const LEAST_GOOGLE = 20_000;
const LEAST_LIBRARY = 100_000;
const MOST_LEASES_MB = 400;
const MOST_P99_MS = 50;
const LEASES = 1_000_000;
const EXPIRING = 100_000;
const EXPIRING_LEASE_MS = 20_000;
const EVERY_MS = 5;
const BATCH = 1_000;
const MB = 1_000_000;
const PATIENCE_MS = 600_000;
const PROGRAM = new URL("../load/pull-program.mjs", import.meta.url).pathname;

export const pullGoogle: Scenario = {
  name: "pull-google",
  title: "publish, streaming pull and ack with Google's client",
  needsWrk: false,
  run: runGoogle,
};

export const pullLibrary: Scenario = {
  name: "pull-library",
  title: "publish, deliver and ack with the library in process",
  needsWrk: false,
  run: runLibrary,
};

export const pullLeases: Scenario = {
  name: "pull-leases",
  title: "a million outstanding leases",
  needsWrk: false,
  run: runLeases,
};

export const pullExpiry: Scenario = {
  name: "pull-expiry",
  title: "100,000 leases expire at once; appends meanwhile",
  needsWrk: false,
  run: runExpiry,
};

async function runGoogle(bench: Bench): Promise<Outcome> {
  const messages = bench.options.quick ? 2_000 : 100_000;
  const round = async () => {
    const directory = bench.freshDirectory("pull");
    const port = await freePort();
    const server = await bench.startOurs(directory, [], ["--grpc-port", String(port)]);
    const took = await program(["google", String(messages), `127.0.0.1:${port}`]);
    await server.stop();
    bench.removeDirectory(directory);
    return took;
  };
  return rates(bench, messages, LEAST_GOOGLE, "client", round);
}

async function runLibrary(bench: Bench): Promise<Outcome> {
  const messages = bench.options.quick ? 10_000 : 500_000;
  return rates(bench, messages, LEAST_LIBRARY, "program", () => program(["library", String(messages)]));
}

interface Took {
  readonly seconds: number;
  readonly processorSeconds: number;
}

async function rates(bench: Bench, messages: number, least: number, who: string, round: () => Promise<Took>) {
  const outcome = emptyOutcome();
  const took: Took[] = [];
  for (let i = 0; i < bench.options.rounds; i++) {
    took.push(await round());
    const { seconds, processorSeconds } = took.at(-1)!;
    const byProcessor = Math.round(messages / processorSeconds);
    bench.log(`round ${i + 1}: ${Math.round(messages / seconds)} messages/s, ${byProcessor} per processor second`);
  }
  const rate = figure(
    "messages published, delivered and acknowledged",
    "messages/s",
    took.map(({ seconds }) => messages / seconds),
  );
  const perProcessor = figure(
    `the same per processor second of the ${who}`,
    "messages",
    took.map(({ processorSeconds }) => messages / processorSeconds),
  );
  outcome.figures.push(rate, perProcessor);
  outcome.targets.push(ownTarget(rate, ">=", least));
  return outcome;
}

async function program(args: readonly string[]): Promise<Took> {
  const said = await runToEnd(process.execPath, [PROGRAM, ...args], PATIENCE_MS);
  const figureOf = (name: string) => {
    const found = new RegExp(`^${name} ([\\d.]+)$`, "m").exec(said)?.[1];
    if (found === undefined) throw new Error(`the program printed no ${name}: ${said}`);
    return Number(found);
  };
  return { seconds: figureOf("seconds"), processorSeconds: figureOf("processor") };
}

async function runLeases(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const count = bench.options.quick ? 10_000 : LEASES;
  const directory = bench.freshDirectory("pull");
  const server = await bench.startOurs(directory, HEAP_PROBE_ARGS);
  const pubsub = await filled(server, count);
  const before = await measureMemory(server);
  const outstanding = await takeAll(server, count, 600_000);
  const after = await measureMemory(server);
  outstanding.terminate();
  await pubsub.close();
  await server.stop();
  bench.removeDirectory(directory);
  const bytes = after.heapBytes + after.externalBytes - before.heapBytes - before.externalBytes;
  const memory = figure(`memory of ${count.toLocaleString("en-US")} leases`, "MB", [bytes / MB]);
  const rss = figure("resident memory of the server then", "MB", [after.rssBytes / MB]);
  outcome.figures.push(memory, rss);
  outcome.targets.push(ownTarget(memory, "<=", MOST_LEASES_MB));
  return outcome;
}

async function runExpiry(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const count = bench.options.quick ? 5_000 : EXPIRING;
  const quiet: number[] = [];
  const expiring: number[] = [];
  for (let round = 0; round < Math.min(3, bench.options.rounds); round++) {
    const directory = bench.freshDirectory("pull");
    const server = await bench.startOurs(directory);
    const pubsub = await filled(server, count);
    await pubsub.createTopic("beside");
    const startedAt = performance.now();
    const outstanding = await takeAll(server, count, EXPIRING_LEASE_MS);
    quiet.push(await appendP99(server, 3_000));
    // From the end of the first lease until the last one has ended and its message is out again.
    await sleep(Math.max(0, EXPIRING_LEASE_MS - 500 - (performance.now() - startedAt)));
    expiring.push(await appendP99(server, 3_000));
    bench.log(`round ${round + 1}: p99 ${expiring.at(-1)!.toFixed(1)} ms, ${quiet.at(-1)!.toFixed(1)} ms before`);
    outstanding.terminate();
    await pubsub.close();
    await server.stop();
    bench.removeDirectory(directory);
  }
  const p99 = figure("p99 of an append while the leases expire", "ms", expiring);
  outcome.figures.push(p99, figure("p99 of an append before that", "ms", quiet));
  outcome.targets.push(ownTarget(p99, "<=", MOST_P99_MS));
  return outcome;
}

/** A topic with so many messages for one subscription, both named bench. */
async function filled(server: RunningServer, count: number): Promise<PubSub> {
  const pubsub = new PubSub({ url: server.url, WebSocket });
  await pubsub.createTopic("bench");
  await pubsub.queue.createSubscription("bench", { topic: "bench", ackDeadlineMs: 600_000 });
  const data = Buffer.from("x");
  const batch = Array.from({ length: BATCH }, () => ({ data }));
  for (let sent = 0; sent < count; sent += BATCH) await pubsub.queue.publish("bench", batch);
  return pubsub;
}

/** Resolves with the connection when all messages are out to it. */
function takeAll(server: RunningServer, count: number, ackDeadlineMs: number): Promise<WebSocket> {
  const socket = new WebSocket(`${server.url.href.replace("http:", "ws:")}v1/pull`);
  let received = 0;
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("open", () => {
      const limits = { maxMessages: 2 * count, maxBytes: 0, ackDeadlineMs };
      socket.send(JSON.stringify({ type: "open", ref: 1, stream: "1", subscription: "bench", ...limits }));
    });
    socket.on("message", (data: Buffer) => {
      // Counted and not parsed, because the harness must not be the slow reader.
      for (let at = data.indexOf('"ackId"'); at >= 0; at = data.indexOf('"ackId"', at + 1)) received++;
      if (received >= count) resolve(socket);
    });
  });
}

async function appendP99(server: RunningServer, ms: number): Promise<number> {
  const connection = await HttpConnection.open(server.url);
  const body = plainMessage(0);
  const took: number[] = [];
  const startedAt = performance.now();
  for (let i = 0; performance.now() - startedAt < ms; i++) {
    await sleep(Math.max(0, startedAt + i * EVERY_MS - performance.now()));
    const sentAt = performance.now();
    const headers = { "Content-Type": "application/octet-stream" };
    const { status } = await connection.send({ method: "POST", path: "/v1/stream/beside", headers, body });
    if (status >= 300) throw new Error(`an append answered ${status}`);
    took.push(performance.now() - sentAt);
  }
  connection.close();
  took.sort((a, b) => a - b);
  return percentile(took, 99);
}

function figure(what: string, unit: string, values: readonly number[]): Figure {
  return { contender: OURS, what, unit, values };
}

/** A port that was free a moment ago: the gRPC door prints none. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}
