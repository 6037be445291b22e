// guarded-1 and guarded-100: the cost of auth and of a log line per request. Sluice with both, against Sluice with neither, on
// the same load.

import { setTimeout as sleep } from "node:timers/promises";
import { runToEnd } from "../child.ts";
import { plainMessage } from "../load/message.ts";
import { type PostLoad, preparePosts, runWrk } from "../load/wrk.ts";
import { compareWithOurs, formatNumber, ratioTarget } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";
import { createAll, noteTrouble, warmUp } from "./append.ts";

const LEAST_RATIO = 0.9;
const BARE = "sluice without auth and request logs";
const WHAT = "appends acknowledged";
const SETTLE_MS = 300;
const SECRET = "a-secret-of-the-benchmark-and-of-nothing-else";

interface Side {
  readonly name: string;
  readonly load: PostLoad;
  readonly args: readonly string[];
  readonly rates: number[];
}

export const guarded1: Scenario = {
  name: "guarded-1",
  title: "append with auth and request logs, 64 connections, 1 stream",
  needsWrk: true,
  run: (bench) => runGuarded(bench, 1),
};

export const guarded100: Scenario = {
  name: "guarded-100",
  title: "append with auth and request logs, 64 connections, 100 streams",
  needsWrk: true,
  run: (bench) => runGuarded(bench, 100),
};

async function runGuarded(bench: Bench, streams: number): Promise<Outcome> {
  const outcome = emptyOutcome();
  const bodies = Array.from({ length: 100 }, (_, i) => plainMessage(i));
  const load = preparePosts(bench.freshDirectory("load"), streams, "application/octet-stream", bodies);
  const settings = ["--set", `projects.default.secrets=${SECRET}`];
  const minted = await runToEnd(
    process.execPath,
    [bench.options.server, "token", ...settings, "--scope", "read,write"],
    20_000,
  );
  const sides: Side[] = [
    { name: OURS, load: { ...load, token: minted.trim() }, args: [...settings, "--log-level", "info"], rates: [] },
    { name: BARE, load, args: ["--set", "log.requests=false"], rates: [] },
  ];
  for (let round = 0; round < bench.options.rounds; round++) await runRound(bench, sides, outcome);
  const figures = sides.map(({ name, rates }) => ({ contender: name, what: WHAT, unit: "messages/s", values: rates }));
  const comparisons = compareWithOurs(WHAT, figures);
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  for (const comparison of comparisons) outcome.targets.push(ratioTarget(comparison, LEAST_RATIO));
  return outcome;
}

/** Loads both servers in turns of a second, because the difference is smaller than the machine's change between rounds. */
async function runRound(bench: Bench, sides: readonly Side[], outcome: Outcome): Promise<void> {
  const running = await Promise.all(
    sides.map(async (side) => {
      const directory = bench.freshDirectory("guarded");
      const server = await bench.startOurs(directory, [], side.args);
      return { side, directory, server, accepted: 0, seconds: 0 };
    }),
  );
  for (const { side, server } of running) {
    await createAll(server.url, side.load);
    await warmUp(bench, server.url, side.load);
  }
  for (let turn = 0; turn < 2 * bench.options.seconds; turn++) {
    for (const one of turn % 2 === 0 ? running : running.toReversed()) {
      // The previous server is still applying its journal.
      await sleep(SETTLE_MS);
      const result = await runWrk(one.server.url, one.side.load, 1);
      noteTrouble(one.side.name, result, outcome);
      one.accepted += result.accepted;
      one.seconds += result.seconds;
    }
  }
  for (const { side, directory, server, accepted, seconds } of running) {
    await server.stop();
    bench.removeDirectory(directory);
    side.rates.push(accepted / seconds);
    bench.log(`${side.name} ${formatNumber(accepted / seconds)} messages/s`);
  }
}
