// The benchmark's entry: selects the scenarios, runs them one after another and writes a report to bench/results.
// scripts/bench.mjs starts it once its dependencies are installed. A scenario that fails is reported and does not stop the
// others; the run then ends with code 1.

import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { killLiving } from "./child.ts";
import { observeConditions } from "./conditions.ts";
import { describeMachine, hasProgram } from "./machine.ts";
import { type Options, parseOptions, USAGE } from "./options.ts";
import { startSluice } from "./peers/sluice.ts";
import { type Report, renderMarkdown, type ScenarioReport, writeReport } from "./report.ts";
import type { Bench, Outcome, Scenario } from "./scenario.ts";
import { append1, append100 } from "./scenarios/append.ts";
import { appendBatch } from "./scenarios/append-batch.ts";
import { channelsFirstToken, channelsPublish } from "./scenarios/channels.ts";
import { clientAppend } from "./scenarios/client-append.ts";
import { groupsQueue, groupsShare } from "./scenarios/groups.ts";
import { groupsJoin, groupsMatch } from "./scenarios/groups-assignment.ts";
import { guarded1, guarded100 } from "./scenarios/guarded.ts";
import { idle } from "./scenarios/idle.ts";
import { fetchAppend, smallRead } from "./scenarios/lane.ts";
import { live1000, live10000, liveIdle, liveLatency, liveOffline, liveReconnect } from "./scenarios/live.ts";
import { pullExpiry, pullGoogle, pullLeases, pullLibrary } from "./scenarios/pull.ts";
import { readAlone, readInterleaved } from "./scenarios/read.ts";
import { redisAppend1, redisAppend100 } from "./scenarios/redis.ts";
import { restart } from "./scenarios/restart.ts";
import { redisSessions, sessionsCopies, sessionsDrain, sessionsPublish } from "./scenarios/sessions.ts";
import { sse100, sse1000, sseLatency } from "./scenarios/sse.ts";

const SCENARIOS: readonly Scenario[] = [
  append1,
  append100,
  appendBatch,
  clientAppend,
  fetchAppend,
  smallRead,
  guarded1,
  guarded100,
  readAlone,
  readInterleaved,
  sse100,
  sse1000,
  sseLatency,
  channelsPublish,
  channelsFirstToken,
  sessionsPublish,
  sessionsDrain,
  sessionsCopies,
  live1000,
  live10000,
  liveLatency,
  liveIdle,
  liveOffline,
  liveReconnect,
  groupsShare,
  groupsQueue,
  groupsJoin,
  groupsMatch,
  pullGoogle,
  pullLibrary,
  pullLeases,
  pullExpiry,
  idle,
  restart,
  redisAppend1,
  redisAppend100,
  redisSessions,
];
/** Above this share of busy processors, other work on the machine is part of the measurement. */
const BUSY_LIMIT = 0.1;
const RESULTS = new URL("results", import.meta.url).pathname;

async function main(): Promise<void> {
  const options = parseOptions(process.argv.slice(2));
  const chosen = choose(options.names);
  if (options.list) {
    for (const { name, title } of SCENARIOS) console.log(`${name.padEnd(18)}${title}`);
    return;
  }
  if (!existsSync(options.server)) throw new Error(`${options.server} does not exist`);
  mkdirSync(options.directory, { recursive: true });
  const workspace = mkdtempSync(join(options.directory, "sluice-bench-"));
  process.on("exit", () => rmSync(workspace, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));

  const report: Report = {
    startedAt: new Date().toISOString(),
    options,
    machine: describeMachine(workspace),
    scenarios: [],
  };
  let files = writeReport(RESULTS, report);
  for (const scenario of chosen) {
    report.scenarios.push(await runScenario(scenario, options, workspace));
    files = writeReport(RESULTS, report);
  }
  console.log(`\n${renderMarkdown(report)}\n${files.json}\n${files.markdown}`);
  if (report.scenarios.some(({ failure }) => failure !== undefined)) process.exitCode = 1;
}

function choose(names: readonly string[]): readonly Scenario[] {
  const matches = (name: string) => SCENARIOS.filter((each) => each.name === name || each.name.startsWith(`${name}-`));
  for (const name of names) {
    if (matches(name).length === 0) throw new Error(`no scenario "${name}"\n\n${USAGE}`);
  }
  return names.length === 0
    ? SCENARIOS
    : SCENARIOS.filter((each) => names.some((name) => matches(name).includes(each)));
}

async function runScenario(scenario: Scenario, options: Options, workspace: string): Promise<ScenarioReport> {
  const { name, title } = scenario;
  console.log(`\n${name}: ${title}`);
  const bench = openBench(options, workspace, name);
  if (scenario.needsWrk && !bench.tools.wrk) {
    const leftOut = "left out: wrk is not installed (Debian: apt-get install wrk)";
    console.log(`  ${leftOut}`);
    return { name, title, leftOut };
  }
  try {
    const conditions = await observeConditions(join(workspace, name));
    const outcome = withFaults(await scenario.run(bench));
    if (conditions.busyShare > BUSY_LIMIT) {
      outcome.notes.push("Other work was going on when this began (see Conditions); do not trust it.");
    }
    return { name, title, outcome, conditions };
  } catch (error) {
    console.error(error);
    return { name, title, failure: (error as Error).message };
  } finally {
    killLiving();
    rmSync(join(workspace, name), { recursive: true, force: true });
  }
}

/** A figure that rests on lost or refused messages meets no target. */
function withFaults(outcome: Outcome): Outcome {
  if (outcome.faults.length === 0) return outcome;
  return { ...outcome, targets: outcome.targets.map((target) => ({ ...target, met: false })) };
}

function openBench(options: Options, workspace: string, name: string): Bench {
  const own = join(workspace, name);
  mkdirSync(own, { recursive: true });
  return {
    options,
    tools: { wrk: hasProgram("wrk"), redis: hasProgram("redis-server") && hasProgram("redis-benchmark") },
    freshDirectory: (label) => mkdtempSync(join(own, `${label}-`)),
    removeDirectory: (path) => rmSync(path, { recursive: true, force: true }),
    startOurs: (directory, nodeArgs, settings) => startSluice(options.server, directory, nodeArgs, settings),
    log: (line) => console.log(`  ${line}`),
  };
}

await main().catch((error: Error) => {
  console.error(error.message);
  process.exit(2);
});
