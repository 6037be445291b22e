// groups-share: 8 members of a group process 64 filled streams and acknowledge every 100 messages; the peer is a Node program that does
// the same with consumer groups of Redis. groups-queue: 8 workers process the jobs of one stream and acknowledge each; the peer is BullMQ.
// Redis syncs its append-only file before every reply, as Sluice syncs before every `acked`.

import { runToEnd } from "../child.ts";
import { createStreams, fillRoundRobin } from "../load/fill.ts";
import { consumeAll, type GroupLoad } from "../load/group-members.ts";
import { startRedis } from "../peers/redis.ts";
import { consumeStreams, XREADGROUP } from "../peers/xreadgroup.ts";
import { type Contender, ratioTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";

const LEAST_RATIO = 1;
const MEMBERS = 8;
const STREAMS = 64;
const ACK_EVERY = 100;
/** Of a member with 8 streams: an acknowledgement under way and the next one for each. */
const SHARE_CREDIT = 2_000;
/** BullMQ calls it the concurrency of a worker. */
const QUEUE_CREDIT = 100;
const BULLMQ = "BullMQ";
const BULLMQ_WORKERS = new URL("../peers/bullmq-workers.mjs", import.meta.url).pathname;
const PATIENCE_MS = 600_000;

export const groupsShare: Scenario = {
  name: "groups-share",
  title: "8 members on 64 streams, acknowledgements of 100",
  needsWrk: false,
  run: runShare,
};

export const groupsQueue: Scenario = {
  name: "groups-queue",
  title: "8 workers on one queue, single acknowledgements",
  needsWrk: false,
  run: runQueue,
};

async function runShare(bench: Bench): Promise<Outcome> {
  const perStream = bench.options.quick ? 200 : 2_000;
  const messages = perStream * STREAMS;
  const load = { mode: "share", members: MEMBERS, credit: SHARE_CREDIT, messages, ackEvery: ACK_EVERY } as const;
  return compare(bench, "messages processed", "messages/s", [
    { name: OURS, run: () => ours(bench, STREAMS, perStream, load) },
    {
      name: XREADGROUP,
      run: () => onRedis(bench, async (port) => messages / (await consumeStreams(port, STREAMS, perStream, MEMBERS))),
    },
  ]);
}

async function runQueue(bench: Bench): Promise<Outcome> {
  const messages = bench.options.quick ? 1_000 : 30_000;
  const load = { mode: "queue", members: MEMBERS, credit: QUEUE_CREDIT, messages, ackEvery: 1 } as const;
  return compare(bench, "jobs processed", "jobs/s", [
    { name: OURS, run: () => ours(bench, 1, messages, load) },
    { name: BULLMQ, run: () => onRedis(bench, async (port) => messages / (await bullmqSeconds(port, messages))) },
  ]);
}

async function compare(bench: Bench, what: string, unit: string, contenders: readonly Contender[]): Promise<Outcome> {
  const outcome = emptyOutcome();
  const present = contenders.filter(({ name }) => bench.tools.redis || name === OURS);
  if (present.length < contenders.length) outcome.notes.push("redis-server is not installed, so there is no peer.");
  const { figures, comparisons } = await takeTurns(bench, what, unit, present);
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  for (const comparison of comparisons) outcome.targets.push(ratioTarget(comparison, LEAST_RATIO));
  return outcome;
}

type Load = Omit<GroupLoad, "filter">;

async function ours(bench: Bench, streams: number, perStream: number, load: Load): Promise<number> {
  const directory = bench.freshDirectory("groups");
  const server = await bench.startOurs(directory);
  const paths = Array.from({ length: streams }, (_, i) => `/v1/stream/bench/${i}`);
  await createStreams(server.url, paths, "application/json");
  await fillRoundRobin(server.url, paths, perStream);
  const { seconds, again } = await consumeAll(server.url, { filter: "bench/+", ...load });
  if (again > 0) bench.log(`${again} messages were delivered again: members were taken for dead on a busy machine`);
  await server.stop();
  bench.removeDirectory(directory);
  return load.messages / seconds;
}

async function onRedis(bench: Bench, run: (port: number) => Promise<number>): Promise<number> {
  const directory = bench.freshDirectory("redis");
  const redis = await startRedis(directory);
  try {
    return await run(Number(redis.url.port));
  } finally {
    await redis.kill();
    bench.removeDirectory(directory);
  }
}

async function bullmqSeconds(port: number, jobs: number): Promise<number> {
  const args = [BULLMQ_WORKERS, ...[port, jobs, MEMBERS, QUEUE_CREDIT].map(String)];
  const said = await runToEnd(process.execPath, args, PATIENCE_MS);
  const seconds = /^seconds ([\d.]+)$/m.exec(said)?.[1];
  if (seconds === undefined) throw new Error(`the workers of BullMQ printed no time: ${said}`);
  return Number(seconds);
}
