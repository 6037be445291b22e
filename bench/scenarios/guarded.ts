// guarded-1 and guarded-100: what auth and a log line per request cost. Our own server with both, against our own server with
// neither, on the same load.

import { runToEnd } from "../child.ts";
import { plainMessage } from "../load/message.ts";
import { type PostLoad, preparePosts, runWrk } from "../load/wrk.ts";
import { type Contender, ratioTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";
import { createAll, noteTrouble, warmUp } from "./append.ts";

const LEAST_RATIO = 0.9;
const BARE = "sluice without auth and request logs";
const SECRET = "a-secret-of-the-benchmark-and-of-nothing-else";

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
  const guarded = { ...load, token: minted.trim() };
  const contenders: Contender[] = [
    { name: OURS, run: () => measure(bench, guarded, [...settings, "--log-level", "info"], OURS, outcome) },
    { name: BARE, run: () => measure(bench, load, ["--set", "log.requests=false"], BARE, outcome) },
  ];
  const { figures, comparisons } = await takeTurns(bench, "appends acknowledged", "messages/s", contenders);
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  for (const comparison of comparisons) outcome.targets.push(ratioTarget(comparison, LEAST_RATIO));
  return outcome;
}

async function measure(
  bench: Bench,
  load: PostLoad,
  args: readonly string[],
  name: string,
  outcome: Outcome,
): Promise<number> {
  const directory = bench.freshDirectory("guarded");
  const server = await bench.startOurs(directory, [], args);
  await createAll(server.url, load);
  await warmUp(bench, server.url, load);
  const result = await runWrk(server.url, load, bench.options.seconds);
  await server.stop();
  bench.removeDirectory(directory);
  noteTrouble(name, result, outcome);
  return result.accepted / result.seconds;
}
