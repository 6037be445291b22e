// groups-join: one member joins 99 others on 1,000 streams: the time until each has its share, and how many streams moved for that.
// groups-match: among 100,000 streams, the time in which a filter finds those that it matches, with a warm index.

import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { PathIndex } from "../../packages/server/src/core/path-index.ts";
import { parseFilter } from "../../packages/server/src/core/topic.ts";
import { createStreams } from "../load/fill.ts";
import { ownTarget } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";

const MEMBERS = 100;
const STREAMS = 1_000;
const MOST_SETTLE_MS = 1_000;
const MOST_MOVES = 2;
/** Nothing has moved for so long, so nothing will. */
const QUIET_MS = 1_500;
const PATIENCE_MS = 60_000;
const PATHS = 100_000;
const MOST_MATCH_MS = 50;
/** By the share of paths that each matches. */
const FILTERS = { "one in a hundred": "site/7/+/+", "one in ten": "site/+/3/+", "all paths": "site/#" };

export const groupsJoin: Scenario = {
  name: "groups-join",
  title: "a member joins 99 others on 1,000 streams",
  needsWrk: false,
  run: runJoin,
};

export const groupsMatch: Scenario = {
  name: "groups-match",
  title: "wildcards over 100,000 streams",
  needsWrk: false,
  run: runMatch,
};

async function runJoin(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const [members, streams] = bench.options.quick ? [10, 100] : [MEMBERS, STREAMS];
  const settled: number[] = [];
  const moved: number[] = [];
  for (let round = 0; round < bench.options.rounds; round++) {
    const { ms, moves } = await join(bench, members, streams);
    settled.push(ms);
    moved.push(moves / Math.floor(streams / members));
    bench.log(`round ${round + 1}: ${ms.toFixed(0)} ms, ${moves} streams moved`);
  }
  const time = { contender: OURS, what: "until the new member has its share", unit: "ms", values: settled };
  const moves = { contender: OURS, what: "streams moved / the fewest possible", unit: "x", values: moved };
  outcome.figures.push(time, moves);
  outcome.targets.push(ownTarget(time, "<=", MOST_SETTLE_MS), ownTarget(moves, "<=", MOST_MOVES));
  return outcome;
}

/** Counts the grants of all members. */
class Grants {
  count = 0;
  lastMs = 0;
  private readonly sockets: WebSocket[] = [];

  async join(url: URL, member: string): Promise<void> {
    const socket = new WebSocket(`ws://${url.host}/v1/consume?member=${member}`);
    this.sockets.push(socket);
    await new Promise<void>((resolve, reject) => {
      socket.on("error", reject);
      socket.on("open", () => {
        socket.send(JSON.stringify({ type: "subscribe", id: "s", topic: "$share/bench/bench/+" }));
        resolve();
      });
    });
    socket.on("message", (data: Buffer) => {
      if (!data.toString().startsWith('{"type":"granted"')) return;
      this.count++;
      this.lastMs = performance.now();
    });
  }

  /** Resolves when at least so many streams were granted and no further one comes. */
  async settle(atLeast: number): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    while (this.count < atLeast || performance.now() - this.lastMs < QUIET_MS) {
      if (performance.now() > deadline) throw new Error(`${this.count} of ${atLeast} streams were granted`);
      await sleep(20);
    }
  }

  close(): void {
    for (const socket of this.sockets) socket.terminate();
  }
}

async function join(bench: Bench, members: number, streams: number): Promise<{ ms: number; moves: number }> {
  const directory = bench.freshDirectory("join");
  const server = await bench.startOurs(directory);
  const paths = Array.from({ length: streams }, (_, i) => `/v1/stream/bench/${i}`);
  await createStreams(server.url, paths, "application/json");
  const grants = new Grants();
  for (let i = 1; i < members; i++) await grants.join(server.url, `m${i}`);
  await grants.settle(streams);
  const before = grants.count;
  const startedAt = performance.now();
  await grants.join(server.url, "new");
  await grants.settle(before + Math.floor(streams / members));
  const outcome = { ms: grants.lastMs - startedAt, moves: grants.count - before };
  grants.close();
  await server.kill();
  bench.removeDirectory(directory);
  return outcome;
}

async function runMatch(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const count = bench.options.quick ? 10_000 : PATHS;
  const index = new PathIndex();
  for (let i = 0; i < count; i++) index.add(`site/${i % 100}/${Math.floor(i / 100) % 10}/${i}`);
  for (const [name, text] of Object.entries(FILTERS)) {
    const filter = parseFilter(text)!;
    const values: number[] = [];
    for (let round = 0; round < bench.options.rounds; round++) {
      const startedAt = performance.now();
      const matched = index.match(filter).length;
      values.push(performance.now() - startedAt);
      bench.log(`round ${round + 1}: ${text} matches ${matched} in ${values.at(-1)!.toFixed(2)} ms`);
    }
    const figure = { contender: OURS, what: `a filter that matches ${name}`, unit: "ms", values };
    outcome.figures.push(figure);
    outcome.targets.push(ownTarget(figure, "<=", MOST_MATCH_MS));
  }
  return outcome;
}
